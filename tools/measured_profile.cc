#include "tools/measured_profile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "program/op_traits.h"

namespace colonnade::tools {
namespace {

using engine::Machine;
using engine::OpRate;
using engine::Origin;

// Rates for ops and transfers that no case has: the best that was seen, or 1e9 a second where none was.
void FillRoofline(Machine& machine) {
  double flops = 0, bytes = 0, link = 0;
  for (const OpRate& op : machine.ops) {
    for (const OpRate::Point& point : op.points) {
      double& best = op.unit == OpRate::Unit::kFlops ? flops : bytes;
      if (op.unit == OpRate::Unit::kFlops || program::CostClassOf(op.op) == program::CostClass::kUpdate)
        best = std::max(best, point.rate);
    }
  }
  for (const engine::MeasuredTransfer& t : machine.transfers) {
    for (const auto& [size, seconds] : t.points) link = t.operation == "exchange" ? std::max(link, size / seconds) : link;
  }
  const auto rate = [](double best, const char* source) {
    return best > 0 ? engine::Quantity{best, Origin::kMeasured, source}
                    : engine::Quantity{1e9, Origin::kGuess, "none was seen"};
  };
  machine.flops_per_sec = rate(flops, "the fastest kernel seen");
  machine.memory_bytes_per_sec = rate(bytes, "the fastest update seen");
  for (engine::Link& l : machine.links) l.bytes_per_sec = rate(link, "the fastest exchange seen");
}

// The factor within which a fitted term is right 19 times of 20: two standard errors. 0 where these are not known.
double FactorOfErrors(double seconds, double standard_error) {
  return standard_error > 0 ? 1 + 2 * standard_error / seconds : 0;
}

void SetHostTerms(const Observations& seen, const std::optional<InputSpeed>& input, Machine& machine) {
  const auto [host, errors] = seen.host();
  const auto set = [](engine::Quantity& quantity, double seconds, double standard_error, const std::string& source) {
    if (seconds > 0) quantity = {seconds, Origin::kMeasured, source, FactorOfErrors(seconds, standard_error)};
  };
  const std::string fit = "fit to the times in which the host enqueued the steps of all Programs";
  set(machine.step_sec, host.step_sec, errors.step_sec, fit);
  set(machine.step_sec_per_task, host.sec_per_task, errors.sec_per_task, fit);
  set(machine.step_sec_per_device, host.sec_per_device, errors.sec_per_device, fit);
  set(machine.step_sec_per_image, host.sec_per_image, errors.sec_per_image, fit);
  if (!input.has_value()) return;
  machine.input_images_per_sec = {input->images_per_sec, Origin::kMeasured, input->source, input->within};
  set(machine.step_sec_per_image, host.sec_per_image + input->host_sec_per_image, errors.sec_per_image,
      absl::StrCat(host.sec_per_image > 0 ? absl::StrCat(fit, ", and ") : "",
                   "copying an image into a step: ", input->source));
}

void SetSlower(const Observations& seen, Machine& machine) {
  const std::vector<double> slowness = seen.Slowness();
  for (size_t d = 0; d < slowness.size(); ++d) {
    if (slowness[d] == 1) continue;
    machine.slower.push_back(
        {machine.devices[d], slowness[d], Origin::kMeasured, "time of its kernels over the fastest device's"});
  }
}

}  // namespace

engine::Machine MeasuredProfile(engine::Machine machine, const Observations& seen, const std::optional<InputSpeed>& input) {
  machine.ops = seen.Rates();
  machine.transfers = seen.Transfers();
  machine.launch_sec = {seen.launch_sec(), Origin::kMeasured, "median gap between two tasks", seen.launch_within()};
  machine.handoff_sec = {seen.handoff_sec(), Origin::kMeasured, "mean gap after a task of another lane, beyond that",
                         seen.handoff_within()};
  machine.skew = {seen.skew(), Origin::kMeasured, "mean wait for the slower of two that meet, over the way to the meeting",
                  seen.skew_within()};
  // Where devices share cores, that is what slows compute beside transfers.
  if (const std::optional<double> slowdown = seen.overlap_slowdown(); slowdown.has_value() && machine.cores.value == 0) {
    machine.overlap_slowdown = {*slowdown, Origin::kMeasured, "compute beside transfers over the same alone"};
  }
  SetHostTerms(seen, input, machine);
  SetSlower(seen, machine);
  FillRoofline(machine);
  engine::LimitRates(machine);
  return machine;
}

}  // namespace colonnade::tools
