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

namespace colonnade::cpu {
namespace {
// Four neighbours of each of two rows, `stride` apart.
COLONNADE_VECTOR_INLINE void LoadRowsOfFour(const float* from, std::int64_t stride, Vector& to) {
  to = reinterpret_cast<Vector>(
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + stride), 1));
}
COLONNADE_VECTOR_INLINE void LoadRowsOfFour(const std::uint16_t* from, std::int64_t stride, Vector& to) {
  const __m128i halves = _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)),
                                            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + stride)));
  to = reinterpret_cast<Vector>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
}  // namespace
}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_AVX2_H_
