// The numbers that a machine profile states once, and what each may be: what reads, writes, counts and draws them goes
// through this one list; what gives one of them otherwise (a flag, a calibration) keeps to its bounds.
#ifndef COLONNADE_ENGINE_MACHINE_QUANTITIES_H_
#define COLONNADE_ENGINE_MACHINE_QUANTITIES_H_

#include "absl/types/span.h"
#include "engine/json_fields.h"
#include "engine/machine.h"

namespace colonnade::engine {

// Outside of these a unit is certainly wrong.
inline constexpr Bounds kFlopRates{1e6, 1e18, "flop/s"};
inline constexpr Bounds kMemoryRates{1e6, 5e15, "byte/s"};
inline constexpr Bounds kLinkRates{1e3, 2e14, "byte/s"};  // of a switch, too
inline constexpr Bounds kImageRates{1e-3, 1e12, "image/s"};
inline constexpr Bounds kFactors{1, 100, ""};        // of `within`, and of a slower device
inline constexpr Bounds kPartsOfCompute{0, 10, ""};  // skew, overlap_slowdown

struct MachineQuantity {
  const char* field;
  Quantity Machine::*quantity;
  Bounds bounds;
  bool is_needed = false;
  bool is_whole = false;
  bool is_drawn = true;  // where the profile is unsure of it
};

// Returns all of them in the order in which a profile is written; draws depend on it.
absl::Span<const MachineQuantity> MachineQuantities();

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_MACHINE_QUANTITIES_H_
