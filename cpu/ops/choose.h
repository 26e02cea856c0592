// Which layouts a primitive with weights runs in: those that the buffers have, or else others with reorders around it.
#ifndef COLONNADE_CPU_CHOOSE_H_
#define COLONNADE_CPU_CHOOSE_H_

#include <array>
#include <cstddef>

#include "cpu/ops/primitive.h"

namespace colonnade::cpu {

// The layouts of x (or dx), w (or dw) and y (or dy).
struct OperandLayouts {
  MemoryDesc x, w, y;
};

inline MemoryDesc AnyLayout(const MemoryDesc& desc) {
  return MemoryDesc(DimsOf(desc), TypeOf(desc), dnnl::memory::format_tag::any);
}

inline OperandLayouts AnyLayout(const OperandLayouts& layouts) {
  return {AnyLayout(layouts.x), AnyLayout(layouts.w), AnyLayout(layouts.y)};
}

// Whether all operands are of f32.
inline bool IsF32(const OperandLayouts& layouts) {
  const auto is_f32 = [](const MemoryDesc& desc) { return TypeOf(desc) == dnnl::memory::data_type::f32; };
  return is_f32(layouts.x) && is_f32(layouts.w) && is_f32(layouts.y);
}

// Returns the layouts of the forward kernel that a backward kernel is described by: all free, and all in bf16 unless all
// operands are of f32.
inline OperandLayouts OfForward(const OperandLayouts& layouts) {
  if (IsF32(layouts)) return AnyLayout(layouts);
  const auto in_bf16 = [](const MemoryDesc& desc) {
    return MemoryDesc(DimsOf(desc), dnnl::memory::data_type::bf16, dnnl::memory::format_tag::any);
  };
  return {in_bf16(layouts.x), in_bf16(layouts.w), in_bf16(layouts.y)};
}

// Chooses among the primitive descriptors, perhaps empty, that make(layouts) returns. Tries, in this order:
//   1. the layouts as they are, 2. weights free, 3. all free: takes the first that is faster than oneDNN's plain loops;
//   then, for f32 alone, the same three again: takes the first that oneDNN has at all; else an empty descriptor. For bf16,
//   f32 kernels on copies (staging.h) are faster than plain loops.
template <class Make>
auto FirstOptimized(const OperandLayouts& have, const Make& make) {
  const std::array<OperandLayouts, 3> attempts = {have, {have.x, AnyLayout(have.w), have.y}, AnyLayout(have)};
  auto fallback = make(attempts[0]);
  for (size_t i = 0; i < attempts.size(); ++i) {
    auto candidate = i == 0 ? fallback : make(attempts[i]);
    if (!candidate) continue;
    if (!IsReferenceImplementation(candidate.impl_info_str())) return candidate;
    if (!fallback) fallback = candidate;
  }
  return IsF32(have) ? fallback : decltype(fallback)();
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CHOOSE_H_
