// The element types that our own kernels read and write: float, and bfloat16, whose arithmetic is that of float.
#ifndef COLONNADE_CPU_ELEMENT_H_
#define COLONNADE_CPU_ELEMENT_H_

#include "program/formulas/bfloat16.h"
#include "program/types.h"

namespace colonnade::cpu {

// Calls f(T()) with the C++ type of `dtype`. REQUIRES: f32 or bf16.
template <class F>
auto WithElement(program::DType dtype, const F& f) {
  return dtype == program::DType::kBF16 ? f(program::BFloat16()) : f(float());
}

// to = value, rounded. Within loops that are vectors: GCC makes no vector of loops that assign a BFloat16 as a whole.
inline void Put(float value, float& to) { to = value; }
inline void Put(float value, program::BFloat16& to) { to.bits = program::BFloat16::BitsOf(value); }

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ELEMENT_H_
