// bfloat16: the upper half of an f32, with its range and eight bits of precision.
#ifndef COLONNADE_PROGRAM_FORMULAS_BFLOAT16_H_
#define COLONNADE_PROGRAM_FORMULAS_BFLOAT16_H_

#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// Made of an f32 by rounding to nearest, ties to even; NaN stays NaN. All arithmetic is that of float.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  COLONNADE_HOST_DEVICE explicit BFloat16(float value) : bits(BitsOf(value)) {}
  COLONNADE_HOST_DEVICE static uint16_t BitsOf(float value) {
    uint32_t word = 0;
    __builtin_memcpy(&word, &value, sizeof(word));
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  COLONNADE_HOST_DEVICE operator float() const {
    const uint32_t word = uint32_t{bits} << 16;
    float value = 0;
    __builtin_memcpy(&value, &word, sizeof(value));
    return value;
  }
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_BFLOAT16_H_
