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

namespace colonnade::cpu {
namespace {
// Four neighbours of each of four rows, `stride` apart.
COLONNADE_VECTOR_INLINE void LoadRowsOfFour(const float* from, std::int64_t stride, Vector& to) {
  __m512 rows = _mm512_castps128_ps512(_mm_loadu_ps(from));
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + stride), 1);
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 2 * stride), 2);
  to = reinterpret_cast<Vector>(_mm512_insertf32x4(rows, _mm_loadu_ps(from + 3 * stride), 3));
}
COLONNADE_VECTOR_INLINE void LoadRowsOfFour(const std::uint16_t* from, std::int64_t stride, Vector& to) {
  const auto two_rows = [stride](const std::uint16_t* at) {
    return _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)),
                              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + stride)));
  };
  const __m256i halves = _mm256_inserti128_si256(_mm256_castsi128_si256(two_rows(from)), two_rows(from + 2 * stride), 1);
  to = reinterpret_cast<Vector>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
}  // namespace
}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_AVX512_H_
