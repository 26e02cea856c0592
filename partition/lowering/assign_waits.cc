#include <algorithm>
#include <array>

#include "partition/lowering/passes.h"
#include "program/dag.h"

namespace colonnade::partition {
namespace {

using program::kLaneCount;
using program::Program;
using program::Task;
using program::TaskId;

// For each lane of a device, how many tasks have certainly ended; those of the step before count from −(tasks of the lane).
using Clock = std::array<int64_t, kLaneCount>;

void Merge(const Clock& from, Clock& into) {
  for (int lane = 0; lane < kLaneCount; ++lane) into[lane] = std::max(into[lane], from[lane]);
}

class WaitAssigner {
 public:
  explicit WaitAssigner(Program& program)
      : program_(program),
        classes_(program),
        dependencies_(program::DeriveDependencies(program, classes_)),
        position_(program.tasks.size()),
        sizes_(program.device_count, Clock{}),
        clock_(program.tasks.size()) {
    for (const Task& task : program_.tasks) position_[task.id.value] = sizes_[task.device][LaneOf(task)]++;
  }

  void Run() {
    // One step alone: waits on tasks of the same step.
    std::vector<std::array<Clock, kLaneCount>> lanes(program_.device_count);
    for (auto& device : lanes) {
      for (Clock& clock : device) clock.fill(INT64_MIN / 2);
    }
    for (Task& task : program_.tasks) {
      if (!classes_.IsRepresentative(task.device)) continue;
      Clock& clock = lanes[task.device][LaneOf(task)];
      AddWaits(dependencies_.within[task.id.value], 0, clock_, clock, task.waits);
      clock_[task.id.value] = clock;
      clock[LaneOf(task)] = position_[task.id.value] + 1;
    }
    // A second step after it: waits on tasks of the step before, where the first step's waits do not imply them.
    const std::vector<Clock> before = clock_;
    for (int d = 0; d < program_.device_count; ++d) {
      for (Clock& clock : lanes[d]) {
        for (int lane = 0; lane < kLaneCount; ++lane) clock[lane] -= sizes_[d][lane];
      }
    }
    for (Task& task : program_.tasks) {
      if (!classes_.IsRepresentative(task.device)) continue;
      Clock& clock = lanes[task.device][LaneOf(task)];
      for (TaskId wait : task.waits) Learn(wait, 0, clock_, clock);
      AddWaits(dependencies_.carried[task.id.value], 1, before, clock, task.waits_previous);
      clock_[task.id.value] = clock;
      clock[LaneOf(task)] = position_[task.id.value] + 1;
    }
    CopyWaits();
  }

 private:
  static int LaneOf(const Task& task) { return static_cast<int>(task.lane); }

  // Gives the other devices of a class the waits of its first one.
  void CopyWaits() {
    for (Task& task : program_.tasks) {
      if (classes_.IsRepresentative(task.device)) continue;
      const Task& first = program_.task(classes_.PairOf(task.id, classes_.RepresentativeOf(task.device)));
      const auto pair_of = [&](TaskId wait) { return classes_.PairOf(wait, task.device); };
      for (TaskId wait : first.waits) task.waits.push_back(pair_of(wait));
      for (TaskId wait : first.waits_previous) task.waits_previous.push_back(pair_of(wait));
    }
  }

  // What is known once `wait`, of `steps_back` steps before, has ended.
  void Learn(TaskId wait, int steps_back, const std::vector<Clock>& clocks, Clock& clock) const {
    const Task& task = program_.task(wait);
    Clock known = clocks[wait.value];
    known[LaneOf(task)] = position_[wait.value] + 1;
    for (int lane = 0; lane < kLaneCount; ++lane) known[lane] -= steps_back * sizes_[task.device][lane];
    Merge(known, clock);
  }

  // Later tasks first: what they imply need not be waited for.
  template <class Waits>
  void AddWaits(std::vector<TaskId> predecessors, int steps_back, const std::vector<Clock>& clocks, Clock& clock,
                Waits& waits) const {
    std::sort(predecessors.begin(), predecessors.end(), [](TaskId a, TaskId b) { return a > b; });
    for (TaskId predecessor : predecessors) {
      const Task& task = program_.task(predecessor);
      const int64_t position = position_[predecessor.value] - steps_back * sizes_[task.device][LaneOf(task)];
      if (clock[LaneOf(task)] > position) continue;
      waits.push_back(predecessor);
      Learn(predecessor, steps_back, clocks, clock);
    }
    std::sort(waits.begin(), waits.end());
  }

  Program& program_;
  const program::DeviceClasses classes_;
  const program::Dependencies dependencies_;
  std::vector<int64_t> position_;  // by task, in its lane
  std::vector<Clock> sizes_;       // by device: tasks of each lane
  std::vector<Clock> clock_;       // by task: known when it starts
};

}  // namespace

absl::Status AssignWaits(Program& program) {
  for (const Task& task : program.tasks) {
    if (!task.waits.empty() || !task.waits_previous.empty()) {
      return absl::InternalError("AssignWaits: expected a Program without waits");
    }
  }
  WaitAssigner(program).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
