// Internal to engine/. The numbers that a machine profile states once: what reads, writes, counts and draws them goes
// through this one list.
#ifndef COLONNADE_ENGINE_MACHINE_QUANTITIES_H_
#define COLONNADE_ENGINE_MACHINE_QUANTITIES_H_

#include "absl/types/span.h"
#include "engine/json_fields.h"
#include "engine/machine.h"

namespace colonnade::engine {

inline constexpr Bounds kFlopRates{1e6, 1e18, "flop/s"};
inline constexpr Bounds kMemoryRates{1e6, 5e15, "byte/s"};

struct MachineQuantity {
  const char* field;
  Quantity Machine::*quantity;
  Bounds bounds;  // outside of these a unit is certainly wrong
  bool is_needed = false;
  bool is_whole = false;
  bool is_drawn = true;  // where the profile is unsure of it
};

// In the order in which a profile is written; draws depend on it.
absl::Span<const MachineQuantity> MachineQuantities();

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_MACHINE_QUANTITIES_H_
