#include "engine/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "engine/machine_quantities.h"
#include "program/op_traits.h"
#include "program/task.h"

namespace colonnade::engine {

namespace {

absl::Status CheckAbove0(absl::string_view field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected a finite number above 0, found %g", field, value));
}

absl::Status CheckNotBelow0(absl::string_view field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected a finite number of 0 or more, found %g", field, value));
}

absl::Status CheckCount(absl::string_view field, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected %d to %d, found %d", field, least, most, value));
}

absl::Status CheckPoints(const std::string& name, absl::Span<const std::pair<double, double>> points) {
  if (points.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": expected at least one point, found none"));
  for (const auto& [at, value] : points) {
    RETURN_IF_ERROR(CheckAbove0(name, at));
    RETURN_IF_ERROR(CheckAbove0(name, value));
  }
  return absl::OkStatus();
}

absl::Status CheckRates(const OpRate& op) {
  const std::string name = absl::StrCat("ops: ", op.op);
  if (op.points.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": expected at least one point, found none"));
  for (const OpRate::Point& point : op.points) {
    const OpShape& s = point.shape;
    for (double extent : {s.n, s.c, s.k, s.r, s.p, s.groups}) RETURN_IF_ERROR(CheckAbove0(name, extent));
    RETURN_IF_ERROR(CheckAbove0(name, point.rate));
  }
  return op.batch_curve.empty() ? absl::OkStatus() : CheckPoints(absl::StrCat(name, ": batch_curve"), op.batch_curve);
}

}  // namespace

std::vector<double> Machine::Slowness() const {
  std::vector<double> slowness(devices.size(), 1);
  for (const SlowerDevice& slow : slower) {
    const auto found = std::find(devices.begin(), devices.end(), slow.device);
    if (found != devices.end()) slowness[found - devices.begin()] = slow.factor;
  }
  return slowness;
}

const char* Name(Origin origin) { return kOriginNames[static_cast<int>(origin)]; }
const char* Name(CollectiveAlgorithm algorithm) { return kAlgorithmNames[static_cast<int>(algorithm)]; }

const std::vector<std::string>& OpNames() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all = {kAllOtherOps};
    for (const program::Op& op : program::AllOps()) all.push_back(program::Name(op));
    return all;
  }());
  return names;
}

const std::vector<std::string>& ProfiledTransferNames() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all = {"exchange"};
    for (program::CollectiveKind kind : program::kCollectiveKinds) all.push_back(program::Name(kind));
    return all;
  }());
  return names;
}

absl::Status CheckNumbers(const Machine& machine) {
  for (const MachineQuantity& row : MachineQuantities()) {
    const bool divides = row.quantity == &Machine::flops_per_sec || row.quantity == &Machine::memory_bytes_per_sec;
    RETURN_IF_ERROR(divides ? CheckAbove0(row.field, (machine.*row.quantity).value)
                            : CheckNotBelow0(row.field, (machine.*row.quantity).value));
  }
  RETURN_IF_ERROR(CheckCount("steps_in_flight", machine.steps_in_flight, 1, std::numeric_limits<int>::max()));
  RETURN_IF_ERROR(CheckCount("copy_engines", machine.copy_engines, 0, 2));
  RETURN_IF_ERROR(CheckCount("devices_per_host", machine.devices_per_host, 0, std::numeric_limits<int>::max()));
  for (const OpRate& op : machine.ops) RETURN_IF_ERROR(CheckRates(op));
  for (const Link& link : machine.links) {
    const std::string name = absl::StrFormat("links: %s to %s: ", link.a, link.b);
    RETURN_IF_ERROR(CheckAbove0(name + "bytes_per_sec", link.bytes_per_sec.value));
    RETURN_IF_ERROR(CheckNotBelow0(name + "latency_sec", link.latency_sec.value));
    RETURN_IF_ERROR(CheckNotBelow0(name + "one_transfer_bytes_per_sec", link.one_transfer_bytes_per_sec.value));
  }
  for (const MeasuredTransfer& transfer : machine.transfers) {
    RETURN_IF_ERROR(CheckPoints(absl::StrCat("transfers: ", transfer.operation), transfer.points));
  }
  for (const SlowerDevice& slower : machine.slower) {
    RETURN_IF_ERROR(CheckAbove0(absl::StrCat("slower: ", slower.device), slower.factor));
  }
  return absl::OkStatus();
}

absl::Status CheckMemoryPeak(const Machine& machine) {
  const double rate = machine.memory_bytes_per_sec.value, peak = machine.peak_memory_bytes_per_sec.value;
  if (peak == 0 || rate <= peak) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "memory_bytes_per_sec.value: expected at most peak_memory_bytes_per_sec, %g byte/s, found %g", peak, rate));
}

}  // namespace colonnade::engine
