// Vectors of kLanes floats for the sources that are compiled for one instruction set. avx512.h and avx2.h say how many
// registers and lanes there are and define what needs an instruction of that set. No other source may see what is here, so
// all of it is unnamed and nothing of std is used.
#ifndef COLONNADE_CPU_VECTORS_H_
#define COLONNADE_CPU_VECTORS_H_

#include <cstdint>

#define COLONNADE_VECTOR_INLINE [[gnu::always_inline]] inline

namespace colonnade::cpu {
namespace {

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef float LooseVector __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

COLONNADE_VECTOR_INLINE void Load(const float* from, Vector& to) { to = *reinterpret_cast<const LooseVector*>(from); }
COLONNADE_VECTOR_INLINE void Store(const Vector& from, float* to) { *reinterpret_cast<LooseVector*>(to) = from; }
// Keeps a value in a register where the compiler would load it again for each use.
COLONNADE_VECTOR_INLINE void Keep(Vector& value) { asm("" : "+v"(value)); }

// Vectors of the upper halves of floats (program/formulas/bfloat16.h). Store rounds to nearest, ties to even; NaN stays NaN.
typedef std::uint16_t Halves __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
typedef std::uint16_t LooseHalves
    __attribute__((vector_size(kLanes * sizeof(std::uint16_t)), aligned(sizeof(std::uint16_t)), may_alias));
typedef std::uint32_t Words __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
COLONNADE_VECTOR_INLINE void Load(const std::uint16_t* from, Vector& to) {
  to = reinterpret_cast<Vector>(__builtin_convertvector(*reinterpret_cast<const LooseHalves*>(from), Words) << 16);
}
COLONNADE_VECTOR_INLINE void Store(const Vector& from, std::uint16_t* to) {
  const Words bits = reinterpret_cast<Words>(from), halves = bits >> 16;
  const Words rounded = from == from ? (bits + 0x7fff + (halves & 1)) >> 16 : halves | 0x40;
  *reinterpret_cast<LooseHalves*>(to) = __builtin_convertvector(rounded, Halves);
}

// Factors of products that are summed: one float in each lane. In avx512_bf16.h a lane holds the upper halves of two.
COLONNADE_VECTOR_INLINE void StoreFactors(const Vector& from, float* to) { Store(from, to); }
COLONNADE_VECTOR_INLINE void LoadFactors(const float* from, Vector& to) { Load(from, to); }
COLONNADE_VECTOR_INLINE Vector BroadcastFactors(const float* from) { return Broadcast(*from); }
COLONNADE_VECTOR_INLINE void AddProduct(const Vector& a, const Vector& b, Vector& sum) { sum += a * b; }

template <class Factor>
struct FactorVector {
  using Type = Vector;
};
template <class Factor>
using Factors = typename FactorVector<Factor>::Type;

typedef std::int32_t Integers __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
typedef std::int32_t LooseIntegers
    __attribute__((vector_size(kLanes * sizeof(std::int32_t)), aligned(sizeof(std::int32_t)), may_alias));

// Integers of 0 to 255, as bytes.
typedef std::uint8_t Bytes __attribute__((vector_size(kLanes)));
typedef std::uint8_t LooseBytes __attribute__((vector_size(kLanes), aligned(1), may_alias));
COLONNADE_VECTOR_INLINE void Load(const std::uint8_t* from, Integers& to) {
  to = __builtin_convertvector(*reinterpret_cast<const LooseBytes*>(from), Integers);
}
COLONNADE_VECTOR_INLINE void Store(const Integers& from, std::uint8_t* to) {
  *reinterpret_cast<LooseBytes*>(to) = __builtin_convertvector(from, Bytes);
}

COLONNADE_VECTOR_INLINE std::int64_t Least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

}  // namespace
}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_VECTORS_H_
