// vectors.h in 32 registers of 16 floats. To be included by sources that are compiled for AVX-512 alone.
#ifndef COLONNADE_CPU_AVX512_H_
#define COLONNADE_CPU_AVX512_H_

#include <immintrin.h>

#define COLONNADE_LANES 16

namespace colonnade::cpu {
namespace {
constexpr int kRegisters = 32;
constexpr int kLanes = COLONNADE_LANES;
[[gnu::always_inline]] inline auto Broadcast(float value) { return _mm512_set1_ps(value); }
[[gnu::always_inline]] inline auto SquareRoot(__m512 value) { return _mm512_maskz_sqrt_ps(0xffff, value); }
}  // namespace
}  // namespace colonnade::cpu

#include "cpu/ops/vectors.h"

#endif  // COLONNADE_CPU_AVX512_H_
