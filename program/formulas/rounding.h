// Whole numbers divided and rounded up.
#ifndef COLONNADE_PROGRAM_FORMULAS_ROUNDING_H_
#define COLONNADE_PROGRAM_FORMULAS_ROUNDING_H_

#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// REQUIRES of both: value >= 0, by > 0, and their sum fits.
COLONNADE_HOST_DEVICE constexpr int64_t CeilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }
// Returns the least multiple of `by` that is not below `value`.
COLONNADE_HOST_DEVICE constexpr int64_t RoundUp(int64_t value, int64_t by) { return CeilDiv(value, by) * by; }

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_ROUNDING_H_
