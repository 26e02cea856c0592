// vectors.h in 16 registers of 8 floats. To be included by sources that are compiled for AVX2 with FMA alone.
#ifndef COLONNADE_CPU_AVX2_H_
#define COLONNADE_CPU_AVX2_H_

#include <immintrin.h>

// Lanes [j, j + 8) of vectors that lie one behind the other.
#define COLONNADE_LANES_FROM(j) j, j + 1, j + 2, j + 3, j + 4, j + 5, j + 6, j + 7

namespace colonnade::cpu {
namespace {
constexpr int kRegisters = 16;
constexpr int kLanes = 8;
[[gnu::always_inline]] inline auto Broadcast(float value) { return _mm256_set1_ps(value); }
[[gnu::always_inline]] inline auto SquareRoot(__m256 value) { return _mm256_sqrt_ps(value); }
}  // namespace
}  // namespace colonnade::cpu

#include "cpu/ops/vectors.h"

#endif  // COLONNADE_CPU_AVX2_H_
