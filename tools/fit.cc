#include "tools/fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/precision.h"
#include "engine/simulator.h"
#include "partition/named_plans.h"
#include "tools/network_file.h"
#include "tools/rows.h"

namespace colonnade::tools {
namespace {

constexpr double kLeastFactor = 1e-3, kMostFactor = 1e3;
constexpr double kCloseEnough = 1e-9;  // of the step that is fitted to
constexpr int kMostTries = 60;

// As steps are measured, with a batch that is there.
absl::StatusOr<double> StepOn(engine::Machine machine, const program::RepresentativeProgram& program) {
  machine.input_images_per_sec.value = 0;
  ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(program, machine, {.trace = false, .memory = false}));
  return absl::ToDoubleSeconds(simulation.step);
}

// Where f, a continuous function with opposite signs at `low` and `high`, is 0: regula falsi, halving the weight of an end
// that stays (Dowell and Jarratt 1971, the Illinois method). f is nearly linear here, so a few calls are enough.
template <class F>
absl::StatusOr<double> RootOf(F f, double low, double high, double close_enough) {
  ASSIGN_OR_RETURN(double at_low, f(low));
  ASSIGN_OR_RETURN(double at_high, f(high));
  double root = at_low == 0 ? low : high;
  for (int i = 0; i < kMostTries && at_low * at_high < 0; ++i) {
    root = (low * at_high - high * at_low) / (at_high - at_low);
    ASSIGN_OR_RETURN(const double value, f(root));
    if (std::abs(value) <= close_enough) break;
    if (value * at_high < 0) {
      low = high;
      at_low = at_high;
    } else {
      at_low /= 2;
    }
    high = root;
    at_high = value;
  }
  return root;
}

// The factor on kernels at which `step` takes on `machine` what was measured.
absl::StatusOr<double> FactorFor(const engine::Machine& machine, const MeasuredStep& step) {
  const auto excess = [&](double factor) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const double simulated, StepOn(WithSlowerKernels(machine, factor), *step.program));
    return simulated - step.step_sec;
  };
  ASSIGN_OR_RETURN(const double least, excess(kLeastFactor));
  if (least > 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("fit: row %s takes %.4g ms, but transfers and the host alone take %.4g on machine %s; use faster "
                        "links, or another row",
                        step.name, step.step_sec * 1e3, (least + step.step_sec) * 1e3, machine.Title()));
  }
  // Steps of machines are within a few times of what a profile predicts: bracket from 1.
  double low = 1, high = 1;
  ASSIGN_OR_RETURN(const double at_one, excess(1));
  while (low > kLeastFactor && at_one > 0) {
    low = std::max(low / 2, kLeastFactor);
    ASSIGN_OR_RETURN(const double value, excess(low));
    if (value <= 0) break;
  }
  double at_high = at_one;
  while (high < kMostFactor && at_high < 0) {
    high = std::min(2 * high, kMostFactor);
    ASSIGN_OR_RETURN(at_high, excess(high));
  }
  if (at_high < 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("fit: row %s takes %.4g ms, but %.4g ms even where kernels are %g times as slow as those of machine "
                        "%s; is a unit wrong?",
                        step.name, step.step_sec * 1e3, (at_high + step.step_sec) * 1e3, kMostFactor, machine.Title()));
  }
  return RootOf(excess, low, high, kCloseEnough * step.step_sec);
}

void SetStepSec(engine::Machine& machine, double step_sec, const std::string& row) {
  machine.step_sec = {std::max(0.0, step_sec), engine::Origin::kFitted,
                      absl::StrFormat("what the measured step of row %s leaves beside kernels and transfers", row)};
}

// Notes on each rate that the factor changed that no source states it any longer. The old source stays in the text, since
// draws vary together the rates of one field that have one source. A guess stays a guess, and a measured op measured.
void SayFitted(engine::Machine& machine, double factor, const std::string& row) {
  if (factor == 1) return;
  const std::string fit = absl::StrFormat("divided by %.4g to fit row %s", factor, row);
  const auto say = [&fit](engine::Origin& origin, std::string& source) {
    if (origin != engine::Origin::kGuess) origin = engine::Origin::kFitted;
    source = source.empty() ? fit : absl::StrCat(source, "; ", fit);
  };
  for (engine::Quantity* rate :
       {&machine.flops_per_sec, &machine.memory_bytes_per_sec, &machine.shared_memory_bytes_per_sec}) {
    if (rate->value > 0) say(rate->origin, rate->source);
  }
  for (engine::OpRate& op : machine.ops) {
    if (op.source.empty()) op.source = op.op;
    const engine::Origin origin = op.origin;
    say(op.origin, op.source);
    // It says that the rate holds the whole time of the op, which the fit does not change.
    if (origin == engine::Origin::kMeasured) op.origin = origin;
  }
}

// Rates that were fitted to a step are of its element type.
void SetPrecision(engine::Machine& machine, program::DType dtype) {
  if (engine::DTypeOf(machine.precision) != dtype) machine.precision = engine::PrecisionOf(dtype);
}

// The fit can be repeated from the profile alone where it is to one step of one device in fp32.
engine::FittedStep FittedToOf(absl::Span<const MeasuredStep> steps) {
  const MeasuredStep& step = steps[0];
  const bool is_in_f32 = step.program->program.dtype == program::DType::kF32;
  if (steps.size() > 1 || step.program->program.device_count > 1 || !is_in_f32 || !step.is_as_named)
    return {.model = step.model};
  return {.model = step.model, .batch = step.global_batch, .step_sec = step.step_sec, .has_f32_pixels = step.has_f32_pixels};
}

// Both numbers: `first` fixes step_sec for every factor, and the factor is where `second` comes out too.
absl::StatusOr<double> FactorForTwo(const engine::Machine& bare, const MeasuredStep& first, const MeasuredStep& second) {
  ASSIGN_OR_RETURN(const double most, FactorFor(bare, first));  // nothing is left for the host
  // Slower kernels leave less that no plan splits, so that the second step falls as the factor rises.
  const auto excess = [&](double factor) -> absl::StatusOr<double> {
    const engine::Machine machine = WithSlowerKernels(bare, factor);
    ASSIGN_OR_RETURN(const double one, StepOn(machine, *first.program));
    ASSIGN_OR_RETURN(const double two, StepOn(machine, *second.program));
    return two + first.step_sec - one - second.step_sec;
  };
  ASSIGN_OR_RETURN(const double at_least, excess(kLeastFactor));
  ASSIGN_OR_RETURN(const double at_most, excess(most));
  if (at_least * at_most > 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "fit: expected rows that one time of the host and one factor on kernels give; row %s takes %.4g ms beside row %s, "
        "and machine %s can have %.4g to %.4g",
        second.name, second.step_sec * 1e3, first.name, bare.name, (at_most + second.step_sec) * 1e3,
        (at_least + second.step_sec) * 1e3));
  }
  return RootOf(excess, kLeastFactor, most, kCloseEnough * second.step_sec);
}

}  // namespace

engine::Machine WithSlowerKernels(engine::Machine machine, double factor) {
  machine.flops_per_sec.value /= factor;
  machine.memory_bytes_per_sec.value /= factor;
  machine.shared_memory_bytes_per_sec.value /= factor;
  for (engine::OpRate& op : machine.ops) {
    for (engine::OpRate::Point& point : op.points) point.rate /= factor;
  }
  if (const double peak = machine.peak_memory_bytes_per_sec.value; peak > 0) {
    machine.memory_bytes_per_sec.value = std::min(machine.memory_bytes_per_sec.value, peak);
  }
  return machine;
}

absl::StatusOr<Fit> FitTo(engine::Machine& machine, absl::Span<const MeasuredStep> steps) {
  const MeasuredStep& first = steps[0];
  const bool host_is_hidden = machine.steps_in_flight > 1;
  if (host_is_hidden && steps.size() > 1) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "fit: expected one row on machine %s, whose steps hide the host's part (steps_in_flight %d), found two",
        machine.Title(), machine.steps_in_flight));
  }
  engine::Machine bare = machine;
  if (!host_is_hidden) bare.step_sec.value = 0;
  ASSIGN_OR_RETURN(const double step, StepOn(bare, *first.program));
  Fit fit;
  if (steps.size() > 1) {
    ASSIGN_OR_RETURN(fit.kernel_factor, FactorForTwo(bare, first, steps[1]));
  } else if (host_is_hidden || step > first.step_sec) {
    ASSIGN_OR_RETURN(fit.kernel_factor, FactorFor(bare, first));
  }
  bare = WithSlowerKernels(bare, fit.kernel_factor);
  SayFitted(bare, fit.kernel_factor, first.name);
  if (!host_is_hidden) {
    ASSIGN_OR_RETURN(const double rest, StepOn(bare, *first.program));
    SetStepSec(bare, first.step_sec - rest, first.name);
  }
  machine = std::move(bare);
  machine.fitted_to = FittedToOf(steps);
  SetPrecision(machine, first.program->program.dtype);
  fit.step_sec = machine.step_sec.value;
  return fit;
}

absl::StatusOr<double> FitKernels(engine::Machine& machine, const MeasuredStep& step) {
  ASSIGN_OR_RETURN(const double factor, FactorFor(machine, step));
  machine = WithSlowerKernels(machine, factor);
  return factor;
}

absl::StatusOr<Refit> MakeRefit(const engine::Machine& machine) {
  const engine::FittedStep& to = machine.fitted_to;
  if (to.batch == 0) return Refit();
  ASSIGN_OR_RETURN(const Network network, OpenNetwork(to.model));
  Row row;
  row.plan = "single";
  row.global_batch = to.batch;
  row.has_f32_pixels = to.has_f32_pixels;
  ASSIGN_OR_RETURN(const partition::Plan plan, PlanOfRow(row, network.graph, machine));
  ASSIGN_OR_RETURN(program::RepresentativeProgram lowered, LowerRow(row, network.graph, machine, plan));
  const auto shared = std::make_shared<const program::RepresentativeProgram>(std::move(lowered));
  return [shared, to](engine::Machine& drawn) {
    return FitTo(drawn,
                 {{"of fitted_to", to.model, to.batch, shared.get(), to.step_sec, /*is_as_named=*/true, to.has_f32_pixels}})
        .status();
  };
}

}  // namespace colonnade::tools
