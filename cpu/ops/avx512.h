// vectors.h in 32 registers of 16 floats. To be included by sources that are compiled for AVX-512 alone.
#ifndef COLONNADE_CPU_AVX512_H_
#define COLONNADE_CPU_AVX512_H_

#include <immintrin.h>

// Lanes [j, j + 16) of vectors that lie one behind the other.
#define COLONNADE_LANES_FROM(j) \
  j, j + 1, j + 2, j + 3, j + 4, j + 5, j + 6, j + 7, j + 8, j + 9, j + 10, j + 11, j + 12, j + 13, j + 14, j + 15

namespace colonnade::cpu {
namespace {
constexpr int kRegisters = 32;
constexpr int kLanes = 16;
[[gnu::always_inline]] inline auto Broadcast(float value) { return _mm512_set1_ps(value); }
[[gnu::always_inline]] inline auto SquareRoot(__m512 value) { return _mm512_maskz_sqrt_ps(0xffff, value); }
}  // namespace
}  // namespace colonnade::cpu

#include "cpu/ops/vectors.h"

#endif  // COLONNADE_CPU_AVX512_H_
