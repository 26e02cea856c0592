// Real runs on this machine: steps of a plan, and a training run's error by update.
#ifndef COLONNADE_TOOLS_MEASURE_H_
#define COLONNADE_TOOLS_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cpu/backend.h"
#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/trace.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::tools {

int CoreCount();

// What something took: on the clock, and of all processors together.
struct Spent {
  double seconds = 0, processor_seconds = 0;
};

// A Program with synthetic data, two steps in flight as in training; on GPUs the images lie there already. It stays loaded
// between runs, so that runs of several Programs can take turns and meet the same moods of the machine.
class StepMeter {
 public:
  // Loads the Program of `plan`, by default on CPU devices, and runs a few steps that are not counted. Meters that take
  // turns share a backend: threads of an OpenMP team that are more than the cores no longer spin, and small networks run at
  // half their speed.
  static absl::StatusOr<std::unique_ptr<StepMeter>> Create(const layers::LayerGraph& graph, const partition::Plan& plan,
                                                           const partition::LowerOptions& lower,
                                                           std::shared_ptr<engine::Backend> backend = nullptr);

  // At least `steps` more, and for at least `time`; one before them is not counted.
  absl::Status Run(int steps, absl::Duration time = absl::ZeroDuration());

  const program::Program& program() const { return program_; }
  // Of each counted step: the seconds from the end of the step before to its own end, the times of its tasks, and the
  // seconds in which the host enqueued it.
  const std::vector<double>& step_seconds() const { return steps_; }
  const std::vector<std::vector<engine::TaskTime>>& times() const { return times_; }
  const std::vector<double>& host_seconds() const { return hosts_; }
  // To lower network and plan and make the Program ready on the devices; and its first step, which touches its memory first.
  const Spent& start_up() const { return start_up_; }
  const Spent& first_step() const { return first_step_; }
  std::vector<engine::DeviceMemory> Memory() const;  // by device
  std::string backend_name() const { return backend_->name(); }

 private:
  StepMeter() = default;
  absl::Status Enqueue();

  program::Program program_;
  std::shared_ptr<engine::Backend> backend_;
  std::unique_ptr<engine::Executor> executor_;
  int64_t classes_ = 0, enqueued_ = 0;
  std::vector<double> steps_, hosts_;
  std::vector<std::vector<engine::TaskTime>> times_;
  Spent start_up_, first_step_;
};

// Bytes that the CPU backend would take for `program`, by device.
absl::StatusOr<std::vector<engine::DeviceMemory>> PredictCpuMemory(const program::Program& program,
                                                                   cpu::CpuOptions::Kernels kernels = {});

// The share of wrong test digits once so much was trained.
struct ErrorPoint {
  double epochs = 0, seconds = 0;  // of training, tests left out
  double error = 0;
};
// Before training and after every `every` steps of two_column on the embedded digits, under a named plan on CPU devices.
absl::StatusOr<std::vector<ErrorPoint>> ErrorByUpdate(const std::string& plan, int devices, int64_t steps, int64_t every,
                                                      int64_t batch);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MEASURE_H_
