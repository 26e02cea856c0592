// Fits a machine profile to steps that somebody measured.
//
// One step fits one number. Where the host's part of a step is not hidden (steps_in_flight 1) that is step_sec, the time
// that no plan splits; where the kernels alone take longer than the step, and on machines that hide the host's part, it is a
// factor on the time of all kernels. Two steps fit both numbers. Nothing else of the profile changes but where
// such numbers are from and what `fitted_to` says, and memory_bytes_per_sec is made no faster than its peak.
#ifndef COLONNADE_TOOLS_FIT_H_
#define COLONNADE_TOOLS_FIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/machine.h"
#include "program/representative_program.h"

namespace colonnade::tools {

struct MeasuredStep {
  std::string name;  // for messages
  std::string model;
  int64_t global_batch = 0;
  const program::RepresentativeProgram* program = nullptr;
  double step_sec = 0;
  bool is_as_named = true;      // false: of the network with other options than its name alone gives
  bool has_f32_pixels = false;  // as Row's
};

// What a fit made of a profile.
struct Fit {
  double step_sec = 0;
  double kernel_factor = 1;  // on the time of every kernel: above 1 they are slower
};

// FailedPrecondition where no factor gives the step: transfers alone take longer, or the second step wants the opposite of
// the first. REQUIRES: one or two steps.
absl::StatusOr<Fit> FitTo(engine::Machine& machine, absl::Span<const MeasuredStep> steps);

// Fits only the factor on kernels, to one step, and returns it. FailedPrecondition as above.
absl::StatusOr<double> FitKernels(engine::Machine& machine, const MeasuredStep& step);

// Returns a machine all of whose kernels take `factor` times as long.
engine::Machine WithSlowerKernels(engine::Machine machine, double factor);

// Fits a profile that was drawn at random (engine/uncertainty.h) to what the profile itself was fitted to.
using Refit = std::function<absl::Status(engine::Machine&)>;

// Refits to `machine.fitted_to`; null where the profile states no step. Errors: those of the network.
absl::StatusOr<Refit> MakeRefit(const engine::Machine& machine);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_FIT_H_
