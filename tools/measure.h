// Real runs on this machine: the steps of a plan.
#ifndef COLONNADE_TOOLS_MEASURE_H_
#define COLONNADE_TOOLS_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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

// The time that something took: on the clock, and summed over all processors.
struct Spent {
  double seconds = 0, processor_seconds = 0;
};

// Called before the first step with 0, and after each counted one with the steps done; with about how many there will be,
// or 0 where that is not known yet.
using StepProgress = std::function<void(int64_t done, int64_t total)>;

// Runs a Program on synthetic data, two steps in flight as in training; on GPUs the images are there already, but for two
// steps after those of another Program, of which Run does not count the first. The Program
// stays loaded between runs, so that runs of several Programs can take turns and meet the same changes of the machine's
// speed.
class StepMeter {
 public:
  // Loads the Program of `plan`, by default on CPU devices, and runs a few steps that are not counted. Meters that take
  // turns share a backend: where there are more OpenMP threads than cores, waiting threads no longer spin, and small
  // networks run at half their speed.
  static absl::StatusOr<std::unique_ptr<StepMeter>> Create(const layers::LayerGraph& graph, const partition::Plan& plan,
                                                           const partition::LowerOptions& lower,
                                                           std::shared_ptr<engine::Backend> backend = nullptr);

  // Runs at least `steps` more steps, for at least `time`; one before them is not counted.
  absl::Status Run(int steps, absl::Duration time = absl::ZeroDuration(), const StepProgress& progress = nullptr);

  const program::Program& program() const { return program_; }
  // Return, for each counted step, the seconds from the end of the step before to its own end, the times of its tasks, and
  // the seconds in which the host enqueued it.
  const std::vector<double>& step_seconds() const { return steps_; }
  const std::vector<std::vector<engine::TaskTime>>& times() const { return times_; }
  const std::vector<double>& host_seconds() const { return hosts_; }
  // Return what it took to lower network and plan and make the Program ready on the devices, and what the first step took,
  // which is the first to touch the memory.
  const Spent& start_up() const { return start_up_; }
  const Spent& first_step() const { return first_step_; }
  std::vector<engine::DeviceMemory> Memory() const;  // by device
  std::string backend_name() const { return backend_->name(); }
  std::vector<std::string> Notes() const { return executor_->loaded().Notes(); }

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

// Returns the bytes that the CPU backend would take for `program`, by device.
absl::StatusOr<std::vector<engine::DeviceMemory>> PredictCpuMemory(const program::Program& program,
                                                                   cpu::CpuOptions::Kernels kernels = {});

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MEASURE_H_
