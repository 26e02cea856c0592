// How long a machine takes for one task of a kind and local shape: interpolated between a profile's points, or by a
// roofline.
//
//   convolutions and matrix products   launch + max(flops / (rate · batch factor), bytes / memory rate)
//   all else                           launch + bytes / rate
//
// and where N > 1 devices are at work, launch left out, 1 + skew · E(N) / E(2) times as long: devices that meet wait for the
// slowest. E(N) is the mean of the largest of N standard normal numbers, so skew is what two devices take longer.
//
// The rate at a shape is interpolated: its logarithm is the mean over the profile's points for the op, each weighed by the
// inverse fourth power of its distance in the logarithms of the shape's extents (the batch left out where a batch curve is
// given, or all points are of one). Points that were measured hold the whole time of an op, so that no memory bound applies
// to them. An op without an entry takes the longer of flops / peak and bytes / memory rate. An entry "*" in flops
// replaces that peak; one in bytes replaces that memory rate.
#ifndef COLONNADE_ENGINE_SIMULATOR_COST_MODEL_H_
#define COLONNADE_ENGINE_SIMULATOR_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/machine.h"
#include "engine/simulator/routes.h"
#include "engine/simulator/transfer_phases.h"
#include "program/program.h"

namespace colonnade::engine {

// Returns the shape of a task's op as OpRate's points have it. REQUIRES: a Compute task.
OpShape ShapeOf(const program::Task& task);

// Returns the bytes of x, the first operand of a transfer; parts of a bucket are ranges of its members' bytes, densely
// packed.
double OperandBytes(const program::Program& program, const program::Task& task);

// Returns the mean of the largest of `count` independent standard normal numbers, within 1e-6: 0 for one, 0.5642 for two,
// 3.2414 for a thousand (Tippett 1925).
double MeanOfLargest(int count);

// Returns the images in one step: the first input's batch over all devices. 0 where the host gives no input.
double ImagesOf(const program::Program& program);

// Returns the seconds of one host's part of a step, with images and tasks counted over all devices:
//   step_sec + step_sec_per_device · D + step_sec_per_image · images · D/devices + step_sec_per_task · tasks · D/devices,
// where D is the number of devices of one host.
double HostSeconds(const Machine& machine, int devices, double images, double tasks);

class CostModel {
 public:
  // `machine` must outlive the result. `devices` is how many are at work.
  CostModel(const Machine& machine, int devices)
      : machine_(machine), devices_(devices), waiting_(1 + machine.skew.value * MeanOfLargest(devices) / MeanOfLargest(2)) {}

  // Returns the seconds of a Compute task alone on its lane, launch included. The simulator times transfers.
  double Seconds(const program::Task& task) const;
  // Returns seconds below which no reduction, size of buckets or overlap brings a step: those of forward and backward on the
  // first device, one task after the other.
  double LeastStepSeconds(const program::Program& program) const;
  // Returns the seconds that `bytes` take through memory while all devices are at work.
  double MemorySeconds(double bytes) const;
  // Returns the seconds of a transfer that the profile has measured as a whole, by the bytes of one operand; a negative
  // number if it has not.
  double MeasuredTransferSeconds(const std::string& what, int members, double bytes) const;
  // How a collective may run: by the machine's algorithm; with kFastest, by any of ring, tree and direct, of which it takes
  // the fastest for its bytes. A ring leads from each member to the nearest that is left, and, with up to 16, begins where
  // its slowest step is fastest; several rings may run beside each other (engine/simulator/rings.h) where that moves a byte
  // in less time and there are no copy engines. With kFastest and no copy engines, an all-reduce may also run in three
  // phases (each node reduces to parts, each part is reduced between the nodes, each node gathers the whole, each phase in
  // pieces behind the one before), or in the switch that joins the devices, where that adds.
  struct CollectiveSchedule {
    enum class Form { kOne, kSeveralRings, kInNodes, kInSwitch };
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;  // not kFastest; of kInNodes, between the nodes
    Form form = Form::kOne;
    double latency_sec = 0, sec_per_byte = 0;  // with nothing beside it; without the first piece of a transfer in pieces
    double Seconds(double bytes) const { return latency_sec + sec_per_byte * bytes; }
  };
  std::vector<CollectiveSchedule> SchedulesFor(const Routes& routes, program::CollectiveKind kind,
                                               const std::vector<int>& group, int root) const;
  // Returns the first of the fastest schedules for `bytes`. REQUIRES: `schedules` is not empty.
  static const CollectiveSchedule& FastestOf(const std::vector<CollectiveSchedule>& schedules, double bytes);
  // Returns what a collective of `group` moves for each byte of an operand.
  std::vector<Phase> PhasesPerByte(const Routes& routes, program::CollectiveKind kind, const CollectiveSchedule& schedule,
                                   std::vector<int> group, int root) const;
  // Returns the seconds of a collective between the first `members` devices with nothing beside it: each phase takes as long
  // as its busiest resource. REQUIRES: `routes` has so many, or the machine has fewer.
  double CollectiveSeconds(const Routes& routes, program::CollectiveKind kind, int members, double bytes) const;

 private:
  const OpRate* RateOf(const std::string& op) const;
  double RateAt(const OpRate& op, const OpShape& shape) const;
  void AddPhases(const Routes& routes, absl::Span<const Phase> at_once, CollectiveSchedule& schedule) const;
  CollectiveSchedule Timed(const Routes& routes, program::CollectiveKind kind, CollectiveSchedule schedule,
                           const std::vector<int>& group, int root) const;

  const Machine& machine_;
  const int devices_;
  const double waiting_;  // for the slowest of them: a factor on compute
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_COST_MODEL_H_
