// Runs two_column under hybrid on 2 x 2 devices after dropping one wait between lanes, for ThreadSanitizer to see the race;
// or training and evaluation in turn, with or without the fence between them.
//
//   dropped_wait none                            nothing dropped: no race
//   dropped_wait turns                           nothing dropped: no race
//   dropped_wait fence                           turns without a fence
//   dropped_wait conv3 conv_forward exchange     the wait of conv3's conv_forward for an exchange, on device 0
//   dropped_wait list                            every wait, by these three names

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kSteps = 12;
constexpr int kRuns =
    60;  // where a wait is dropped: which lane comes first is chance, and a lane that comes last hides the race

absl::StatusOr<program::Program> LoweredTwoColumn(program::Mode mode = program::Mode::kTrain) {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {});
  if (!graph.ok()) return graph.status();
  absl::StatusOr<partition::Plan> plan = partition::NamedPlan("hybrid", *graph, {.devices = 4, .global_batch = kBatch});
  if (!plan.ok()) return plan.status();
  return partition::Lower(*graph, *plan, {.mode = mode, .global_batch = kBatch});
}

// The first wait of device 0 that has these names; true if there was one.
bool DropWait(program::Program& program, const std::string& layer, const std::string& task_name,
              const std::string& waits_for) {
  for (program::Task& task : program.tasks) {
    if (task.device != 0 || task.provenance.layer != layer || program::Name(task) != task_name) continue;
    auto drop = [&](auto& waits) {
      auto found = std::find_if(waits.begin(), waits.end(),
                                [&](program::TaskId id) { return program::Name(program.task(id)) == waits_for; });
      if (found == waits.end()) return false;
      waits.erase(found);
      return true;
    };
    if (drop(task.waits) || drop(task.waits_previous)) return true;
  }
  return false;
}

void ListWaits(const program::Program& program) {
  for (const program::Task& task : program.tasks) {
    if (task.device != 0) continue;
    for (program::TaskId id : task.waits) {
      std::printf("%s %s %s\n", task.provenance.layer.c_str(), program::Name(task).c_str(),
                  program::Name(program.task(id)).c_str());
    }
    for (program::TaskId id : task.waits_previous) {
      std::printf("%s %s %s (previous step)\n", task.provenance.layer.c_str(), program::Name(task).c_str(),
                  program::Name(program.task(id)).c_str());
    }
  }
}

absl::StatusOr<std::unique_ptr<engine::Backend>> MakeDevices() {
  return cpu::MakeCpuBackend({.devices = 4, .threads_per_device = 1});
}

// Enqueues a step, once that two before it has been collected.
absl::Status Enqueue(engine::Executor& executor, uint64_t step) {
  if (executor.in_flight() == 2) {
    if (absl::Status s = executor.Collect().status(); !s.ok()) return s;
  }
  absl::StatusOr<absl::Span<float>> images = executor.NextInput<float>(engine::kImages);
  if (!images.ok()) return images.status();
  std::fill(images->begin(), images->end(), 0.5f);
  absl::StatusOr<absl::Span<int32_t>> labels = executor.NextInput<int32_t>(engine::kLabels);
  if (!labels.ok()) return labels.status();
  std::fill(labels->begin(), labels->end(), static_cast<int32_t>(step % 10));
  return executor.Enqueue({.learning_rate = 0.01, .step = step});
}

// Steps of `programs` in turn.
absl::Status RunSteps(absl::Span<const program::Program> programs, engine::Backend& backend) {
  std::vector<std::unique_ptr<engine::Executor>> executors;
  for (const program::Program& program : programs) {
    auto executor = engine::Executor::Create(program, backend);
    if (!executor.ok()) return executor.status();
    executors.push_back(*std::move(executor));
  }
  if (absl::Status s = engine::InitializeParameters(executors[0]->loaded(), 1); !s.ok()) return s;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (const auto& executor : executors) {
      if (absl::Status s = Enqueue(*executor, step); !s.ok()) return s;
    }
  }
  absl::Status status;
  for (const auto& executor : executors) {
    while (executor->in_flight() > 0) status.Update(executor->Collect().status());
  }
  return status;
}

// Another loaded Program, whose fences are dropped.
class WithoutFence : public engine::LoadedProgram {
 public:
  WithoutFence(const program::Program& program, std::unique_ptr<engine::LoadedProgram> loaded)
      : LoadedProgram(program), loaded_(std::move(loaded)) {}
  void Fence() override {}
  void Launch(program::TaskId task, int64_t step) override { loaded_->Launch(task, step); }
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step) override {
    loaded_->Await(device, lane, task, step);
  }
  absl::Status Synchronize(int64_t step) override { return loaded_->Synchronize(step); }
  std::vector<engine::TaskTime> Times(int64_t step) const override { return loaded_->Times(step); }
  absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const override {
    return loaded_->ReadBytes(buffer, bytes);
  }
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override {
    return loaded_->WriteBytes(buffer, bytes);
  }
  engine::DeviceMemory Memory(int device) const override { return loaded_->Memory(device); }
  const std::vector<engine::AddedReorder>& added_reorders() const override { return loaded_->added_reorders(); }

 private:
  std::unique_ptr<engine::LoadedProgram> loaded_;
};

class BackendWithoutFences : public engine::Backend {
 public:
  explicit BackendWithoutFences(engine::Backend& backend) : backend_(backend) {}
  std::string name() const override { return backend_.name(); }
  int device_count() const override { return backend_.device_count(); }
  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&slots)[2]) override {
    auto loaded = backend_.Load(program, slots);
    if (!loaded.ok()) return loaded.status();
    return {std::make_unique<WithoutFence>(program, *std::move(loaded))};
  }
  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program& program) override {
    return backend_.MemoryOf(program);
  }
  int64_t TakenBytes(int device) const override { return backend_.TakenBytes(device); }

 private:
  engine::Backend& backend_;
};

absl::Status RunTurns(bool fences) {
  auto backend = MakeDevices();
  if (!backend.ok()) return backend.status();
  std::vector<program::Program> programs;
  for (program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
    absl::StatusOr<program::Program> program = LoweredTwoColumn(mode);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  BackendWithoutFences without(**backend);
  return RunSteps(programs, fences ? **backend : without);
}

absl::Status RunAlone(const program::Program& program, int runs) {
  for (int run = 0; run < runs; ++run) {
    auto backend = MakeDevices();
    if (!backend.ok()) return backend.status();
    if (absl::Status s = RunSteps({&program, 1}, **backend); !s.ok()) return s;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  absl::StatusOr<program::Program> program = LoweredTwoColumn();
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", std::string(program.status().message()).c_str());
    return 2;
  }
  if (argc == 2 && std::string(argv[1]) == "list") {
    ListWaits(*program);
    return 0;
  }
  if (argc == 4 && !DropWait(*program, argv[1], argv[2], argv[3])) {
    std::fprintf(stderr, "the Program has no such wait\n");
    return 2;
  }
  const std::string what = argc == 2 ? argv[1] : "";
  const absl::Status status =
      what == "turns" || what == "fence" ? RunTurns(what == "turns") : RunAlone(*program, argc == 4 ? kRuns : 1);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::printf("ran %d steps\n", kSteps);
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colonnade

int main(int argc, char** argv) { return colonnade::Main(argc, argv); }
