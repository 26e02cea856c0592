#include "engine/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/machine_quantities.h"
#include "program/formulas/philox.h"

namespace colonnade::engine {
namespace {

// Calls factor(field, source, within) for each uncertain number and multiplies the number by the result.
template <class Factor>
void Multiply(Machine& machine, Factor factor) {
  const auto quantity = [&](const char* field, Quantity& q) {
    if (q.value != 0) q.value *= factor(field, q.source, WithinOf(q.within, q.origin));
  };
  for (const MachineQuantity& row : MachineQuantities()) {
    if (row.is_drawn) quantity(row.field, machine.*row.quantity);
  }
  for (OpRate& op : machine.ops) {
    const std::string& source = op.source.empty() ? op.op : op.source;
    const double rates = factor("rate", source, WithinOf(op.within, op.origin));
    for (OpRate::Point& point : op.points) point.rate *= rates;
    const double curve = factor("batch_curve", source, std::max(op.batch_curve_within, 1.0));
    for (auto& [batch, part] : op.batch_curve) {
      if (part < 1) part = std::min(part * curve, 1.0);
    }
  }
  for (Link& link : machine.links) {
    quantity("link.bytes_per_sec", link.bytes_per_sec);
    quantity("link.latency_sec", link.latency_sec);
    quantity("link.one_transfer_bytes_per_sec", link.one_transfer_bytes_per_sec);
  }
  for (MeasuredTransfer& transfer : machine.transfers) {
    const std::string source =
        transfer.source.empty() ? absl::StrCat(transfer.operation, " of ", transfer.members) : transfer.source;
    const double seconds = factor("transfer", source, WithinOf(transfer.within, transfer.origin));
    for (auto& [bytes, time] : transfer.points) time *= seconds;
  }
}

}  // namespace

double WithinOf(double stated, Origin origin) {
  if (stated > 0) return stated;
  return origin == Origin::kGuess ? kGuessWithin : 1;
}

Machine DrawMachine(const Machine& machine, uint64_t seed, uint64_t draw) {
  Machine drawn = machine;
  std::map<std::pair<std::string, std::string>, double> exponents;  // from -1 to 1, by field and source
  Multiply(drawn, [&](const char* field, const std::string& source, double within) {
    const auto [found, is_new] = exponents.try_emplace({field, source}, 0);
    if (is_new) {
      const auto [word] = program::RandomBlock(seed, program::RandomPurpose::kMachineProfile, 0, draw, exponents.size());
      found->second = 2 * program::UniformDouble(word[0], word[1]) - 1;
    }
    return std::pow(within, found->second);
  });
  if (drawn.peak_memory_bytes_per_sec.value > 0) {
    drawn.memory_bytes_per_sec.value = std::min(drawn.memory_bytes_per_sec.value, drawn.peak_memory_bytes_per_sec.value);
  }
  return drawn;
}

bool IsCertain(const Machine& machine) {
  bool certain = true;
  Machine copy = machine;
  Multiply(copy, [&](const char*, const std::string&, double within) {
    certain = certain && within == 1;
    return 1.0;
  });
  return certain;
}

}  // namespace colonnade::engine
