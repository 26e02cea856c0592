#include "engine/machine.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "program/op_traits.h"
#include "program/task.h"

namespace colonnade::engine {

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

absl::Status CheckMemoryPeak(const Machine& machine) {
  const double rate = machine.memory_bytes_per_sec.value, peak = machine.peak_memory_bytes_per_sec.value;
  if (peak == 0 || rate <= peak) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "memory_bytes_per_sec.value: expected at most peak_memory_bytes_per_sec, %g byte/s, found %g", peak, rate));
}

}  // namespace colonnade::engine
