// Measures this machine as a profile: its kernels at the shapes of some networks, its transfers, its overheads.
#ifndef COLONNADE_TOOLS_CALIBRATION_H_
#define COLONNADE_TOOLS_CALIBRATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "tools/gpus.h"
#include "tools/machines.h"
#include "tools/measure.h"
#include "tools/measured_profile.h"
#include "tools/transfers.h"

namespace colonnade::tools {

// The most devices that plans and transfers are timed on here.
inline constexpr int kMostDevicesHere = 64;

// A named plan whose Programs are timed. Overlapped Programs show the handoffs between lanes, and how much slower compute is
// beside a transfer than by itself.
struct CalibrationPlan {
  std::string name;
  int devices = 1;
  bool overlap = false;
};
// Returns single; data, model and owt on 2 and more devices, up to `devices`; and an overlapped plan.
std::vector<CalibrationPlan> CalibrationPlans(int devices);

// Returns a batch below and one above `batch`, of which each of `devices` can hold an equal part of whole fours; but for
// that, those of every plan on up to `most_devices` are the same.
std::vector<int64_t> CalibrationBatches(int64_t batch, int most_devices, int devices);

// What is calibrated: devices of a backend that times tasks.
struct CalibrationTarget {
  int devices = 1;  // the most that are at work; fewer are measured, too
  program::DType dtype = program::DType::kF32;
  BackendMaker make_backend;  // for steps
  BackendMaker make_mover;    // for transfers alone
  engine::Machine machine;    // what is known of the machine without measuring
};
// Makes the target of this machine's CPU devices. REQUIRES: `choice` is one of TimedKernelChoices.
CalibrationTarget CpuTarget(int devices, const KernelChoice& choice = {});
// Makes a target of one device for each GPU, or of `devices` if that is not 0. The caller sets dtype and the makers of
// backends.
CalibrationTarget GpuTarget(const Gpus& gpus, int devices, const std::string& precision);

// Runs Programs. From each task's mean time, without the longest tenth of the steps, it takes the rate of its op at its
// shape; for transfers, the time of each exchange and collective from when all its sides were there, and a sweep of sizes.
// All numbers are of origin "measured". A machine's speed changes for a second or more, so the Programs of a plan stay
// loaded and run in turn.
class Calibration {
 public:
  explicit Calibration(CalibrationTarget target);
  ~Calibration();

  // Loads the Programs of a network under one plan at some global batches, from the smallest, instead of those loaded
  // before; none where the network or the batch does not split so. ResourceExhausted where CPU devices want more memory than
  // is free.
  absl::Status Load(const layers::LayerGraph& graph, const CalibrationPlan& plan, const std::vector<int64_t>& batches);
  int loaded() const { return static_cast<int>(loaded_.size()); }
  // Runs one of them for at least `steps` steps and at least `time`.
  absl::Status Run(int index, int steps, absl::Duration time);
  // Returns the devices that the loaded Programs run on; others that take turns with them share these.
  const std::shared_ptr<engine::Backend>& backend() const { return backend_; }

  absl::Status SweepTransfers();
  void AddTransfers(const std::vector<TransferTime>& transfers);
  void SetInput(InputSpeed input) { input_ = std::move(input); }

  // Returns the profile of everything that has run, and frees what is loaded.
  engine::Machine Result();

 private:
  void TakeObservations();

  const CalibrationTarget target_;
  std::optional<InputSpeed> input_;
  std::unique_ptr<Observations> seen_;
  std::shared_ptr<engine::Backend> backend_;
  std::vector<std::unique_ptr<StepMeter>> loaded_;
  bool overlap_ = false;  // of what is loaded
};

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_CALIBRATION_H_
