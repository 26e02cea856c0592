// Real runs on this machine: steps of a plan, and a training run's error by update.
#ifndef COLONNADE_CLI_MEASURE_H_
#define COLONNADE_CLI_MEASURE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backend.h"
#include "engine/trace.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::cli {

int CoreCount();

// A Program on CPU devices with synthetic data, two steps in flight as in training.
struct MeasuredRun {
  program::Program program;
  absl::Duration median_step;  // from the end of one step to the end of the next
  std::vector<absl::Duration> steps;
  std::vector<std::vector<engine::TaskTime>> times;  // by step, all after the first two
  std::vector<engine::DeviceMemory> memory;          // by device
  absl::Duration host;                               // of the host's part of a step: enqueueing it
};
absl::StatusOr<MeasuredRun> MeasureSteps(const layers::LayerGraph& graph, const partition::Plan& plan,
                                         const partition::LowerOptions& lower, int steps);

// Bytes that the CPU backend would take for `program`, by device.
absl::StatusOr<std::vector<engine::DeviceMemory>> PredictCpuMemory(const program::Program& program);

// The share of wrong test digits before training and after every `every` steps of two_column on the embedded digits.
absl::StatusOr<std::vector<double>> ErrorByUpdate(int64_t steps, int64_t every, int64_t batch);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_MEASURE_H_
