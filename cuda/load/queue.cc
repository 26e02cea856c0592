#include "cuda/load/queue.h"

#include <algorithm>
#include <limits>

namespace colonnade::cuda {

using program::Lane;
using program::Task;
using program::TaskId;

Queues::Queues(const program::Program& program, Issuer& issuer)
    : program_(program),
      issuer_(issuer),
      queues_(program.device_count * program::kLaneCount),
      meetings_(program),
      issued_step_(program.tasks.size(), std::numeric_limits<int64_t>::min()) {}

void Queues::Launch(TaskId task, int64_t step) {
  const Task& what = program_.task(task);
  Push(what.device, what.lane, {task, step, false});
}

void Queues::Await(int device, Lane lane, TaskId task, int64_t step) { Push(device, lane, {task, step, true}); }

void Queues::Rewind(int64_t step) {
  for (int64_t& issued : issued_step_) issued = std::min(issued, step - 1);
  for (std::deque<Command>& queue : queues_) queue.clear();
  held_ = 0;
}

void Queues::Push(int device, Lane lane, const Command& command) {
  QueueOf(device, lane).push_back(command);
  ++held_;
  if (AdvanceQueue(device * program::kLaneCount + static_cast<int>(lane)) && held_ > 0) Advance();
}

void Queues::Advance() {
  for (bool any = true; any && held_ > 0;) {
    any = false;
    for (size_t q = 0; q < queues_.size(); ++q) any = AdvanceQueue(q) || any;
  }
}

bool Queues::IsAtHead(TaskId task, int64_t step) {
  const Task& what = program_.task(task);
  const std::deque<Command>& queue = QueueOf(what.device, what.lane);
  return !queue.empty() && !queue.front().is_wait && queue.front().task == task && queue.front().step == step;
}

void Queues::PopHead(size_t q) {
  queues_[q].pop_front();
  --held_;
}

bool Queues::AdvanceQueue(size_t q) {
  bool any = false;
  while (!queues_[q].empty()) {
    const Command command = queues_[q].front();
    if (command.is_wait) {
      if (issued_step_[command.task.value] < command.step) break;
      PopHead(q);
      issuer_.IssueWait(static_cast<int>(q) / program::kLaneCount, static_cast<Lane>(q % program::kLaneCount), command.task,
                        command.step);
    } else if (const absl::Span<const TaskId> sides = SidesOf(command.task); sides.size() == 1) {
      PopHead(q);
      issuer_.IssueTask(command.task, command.step);
      SetIssued(command.task, command.step);
    } else {
      bool all_here = true;
      for (TaskId side : sides) all_here = all_here && IsAtHead(side, command.step);
      if (!all_here) break;
      for (TaskId side : sides) {
        const Task& what = program_.task(side);
        PopHead(what.device * program::kLaneCount + static_cast<int>(what.lane));
        SetIssued(side, command.step);
      }
      issuer_.IssueMeeting(sides, command.step);
    }
    any = true;
  }
  return any;
}

}  // namespace colonnade::cuda
