// avx512.h, and factors of products that are the upper halves of floats: each lane holds two, whose products are added to
// one sum. To be included by sources that are compiled for AVX-512 with AVX512_BF16 alone.
#ifndef COLONNADE_CPU_AVX512_BF16_H_
#define COLONNADE_CPU_AVX512_BF16_H_

#include "cpu/ops/avx512.h"

namespace colonnade::cpu {
namespace {

static_assert(kLanes == 16, "a vector of pairs begins with lane 0 of a block");

typedef std::uint32_t LooseWord __attribute__((aligned(sizeof(std::uint16_t)), may_alias));
typedef std::uint32_t LooseWords __attribute__((vector_size(64), aligned(sizeof(std::uint16_t)), may_alias));
typedef std::uint16_t TwoRows __attribute__((vector_size(64)));
typedef std::uint16_t LooseTwoRows __attribute__((vector_size(64), aligned(sizeof(std::uint16_t)), may_alias));

template <>
struct FactorVector<std::uint16_t> {
  using Type = Words;
};

COLONNADE_VECTOR_INLINE void Keep(Words& value) { asm("" : "+v"(value)); }
COLONNADE_VECTOR_INLINE void StoreFactors(const Vector& from, std::uint16_t* to) {
  *reinterpret_cast<LooseHalves*>(to) = (Halves)_mm512_cvtneps_pbh(reinterpret_cast<__m512>(from));
}
COLONNADE_VECTOR_INLINE void LoadFactors(const std::uint16_t* from, Words& to) {
  to = *reinterpret_cast<const LooseWords*>(from);
}
COLONNADE_VECTOR_INLINE Words BroadcastFactors(const std::uint16_t* from) {
  return reinterpret_cast<Words>(_mm512_set1_epi32(static_cast<int>(*reinterpret_cast<const LooseWord*>(from))));
}
COLONNADE_VECTOR_INLINE void AddProduct(const Words& a, const Words& b, Vector& sum) {
  sum = reinterpret_cast<Vector>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), (__m512bh)a, (__m512bh)b));
}

// Rows of 16: [2][16] → [16][2].
COLONNADE_VECTOR_INLINE void JoinTwoRows(std::uint16_t* rows) {
  LooseTwoRows& at = *reinterpret_cast<LooseTwoRows*>(rows);
  const TwoRows from = at;
  at = __builtin_shufflevector(from, from, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11,
                               27, 12, 28, 13, 29, 14, 30, 15, 31);
}

}  // namespace
}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_AVX512_BF16_H_
