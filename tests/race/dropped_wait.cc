// Runs two_column under hybrid on 2 x 2 devices after dropping one wait between lanes, for ThreadSanitizer to see the race.
//
//   dropped_wait none                            nothing dropped: no race
//   dropped_wait conv3 conv_forward exchange     the wait of conv3's conv_forward for an exchange, on device 0
//   dropped_wait list                            every wait, by these three names

#include <algorithm>
#include <cstdio>
#include <string>

#include "cpu/backend.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kSteps = 12;

absl::StatusOr<program::Program> LoweredTwoColumn() {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {});
  if (!graph.ok()) return graph.status();
  absl::StatusOr<partition::Plan> plan = partition::NamedPlan("hybrid", *graph, {.devices = 4, .global_batch = kBatch});
  if (!plan.ok()) return plan.status();
  return partition::Lower(*graph, *plan, {.global_batch = kBatch});
}

// The first wait of device 0 that has these names; true if there was one.
bool DropWait(program::Program& program, const std::string& layer, const std::string& task_name,
              const std::string& waits_for) {
  for (program::Task& task : program.tasks) {
    if (task.device != 0 || task.from.layer != layer || program::Name(task) != task_name) continue;
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
      std::printf("%s %s %s\n", task.from.layer.c_str(), program::Name(task).c_str(),
                  program::Name(program.task(id)).c_str());
    }
    for (program::TaskId id : task.waits_previous) {
      std::printf("%s %s %s (previous step)\n", task.from.layer.c_str(), program::Name(task).c_str(),
                  program::Name(program.task(id)).c_str());
    }
  }
}

absl::Status RunSteps(const program::Program& program) {
  auto backend = cpu::MakeCpuBackend({.devices = 4, .threads_per_device = 1});
  if (!backend.ok()) return backend.status();
  auto executor = engine::Executor::Create(program, **backend);
  if (!executor.ok()) return executor.status();
  if (absl::Status s = engine::InitializeParameters(program, (*executor)->loaded(), 1); !s.ok()) return s;
  for (uint64_t step = 0; step < kSteps; ++step) {
    absl::StatusOr<absl::Span<float>> images = (*executor)->NextImages();
    if (!images.ok()) return images.status();
    std::fill(images->begin(), images->end(), 0.5f);
    for (int32_t& label : (*executor)->NextLabels()) label = static_cast<int32_t>(step % 10);
    if (absl::Status s = (*executor)->Enqueue({.learning_rate = 0.01, .step = step}); !s.ok()) return s;
    if ((*executor)->in_flight() < 2) continue;
    if (absl::Status s = (*executor)->Collect().status(); !s.ok()) return s;
  }
  return (*executor)->Collect().status();
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
  const absl::Status status = RunSteps(*program);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::printf("ran %d steps\n", kSteps);
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colonnade

int main(int argc, char** argv) { return colonnade::Main(argc, argv); }
