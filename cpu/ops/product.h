// The kernels of a product y = x w + bias and of its gradients, around the primitives that oneDNN has for it: convolutions
// and inner products take the same operands in the same order.
//
// Each takes the layouts that x, w and y have and the descriptor that was chosen for them (choose.h). Where that is empty,
// it returns kUnimplemented.
#ifndef COLONNADE_CPU_PRODUCT_H_
#define COLONNADE_CPU_PRODUCT_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "cpu/ops/choose.h"
#include "cpu/ops/primitive.h"

namespace colonnade::cpu {

// The operands of a product's op that are x, w, y and the bias, or their gradients; kNone where it has no bias.
struct ProductUses {
  static constexpr int kNone = -1;
  int x, w, y;
  int bias = kNone;
};
constexpr ProductUses ForwardUses(bool has_bias) {
  return has_bias ? ProductUses{.x = 0, .w = 1, .y = 3, .bias = 2} : ProductUses{.x = 0, .w = 1, .y = 2};
}
constexpr ProductUses BackwardDataUses() { return {.x = 2, .w = 1, .y = 0}; }
constexpr ProductUses BackwardWeightsUses(bool has_bias) {
  return {.x = 0, .w = 2, .y = 1, .bias = has_bias ? 3 : ProductUses::kNone};
}

// Empty where there is no bias.
inline MemoryDesc BiasDesc(const TaskContext& context, const ProductUses& uses) {
  return uses.bias == ProductUses::kNone ? MemoryDesc() : DescOf(context.view(uses.bias));
}

// Scratch memory that the caller gives, and a ReLU behind the product where `relu`.
inline dnnl::primitive_attr ProductAttributes(bool relu) {
  dnnl::primitive_attr attr = UserScratchpad();
  if (!relu) return attr;
  dnnl::post_ops behind;
  AppendRelu(behind);
  attr.set_post_ops(behind);
  return attr;
}

inline absl::Status NoProductOfTheseShapes() { return absl::UnimplementedError("oneDNN has no product of these shapes"); }

template <class Primitive>
PreparedKernel ForwardProduct(const TaskContext& context, const ProductUses& uses, const OperandLayouts& have,
                              const typename Primitive::primitive_desc& chosen) {
  if (!chosen) return NoProductOfTheseShapes();
  const MemoryDesc bias = BiasDesc(context, uses);
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(uses.x, DNNL_ARG_SRC, have.x, chosen.src_desc(), "input");
  kernel->AddInput(uses.w, DNNL_ARG_WEIGHTS, have.w, chosen.weights_desc(), "weights");
  if (uses.bias != ProductUses::kNone) kernel->AddInput(uses.bias, DNNL_ARG_BIAS, bias, bias, "bias");
  kernel->AddOutput(uses.y, DNNL_ARG_DST, have.y, chosen.dst_desc(), "output");
  kernel->SetPrimitive(Primitive(chosen), chosen.scratchpad_desc());
  return {std::move(kernel)};
}

template <class Primitive>
PreparedKernel BackwardDataProduct(const TaskContext& context, const ProductUses& uses, const OperandLayouts& have,
                                   const typename Primitive::primitive_desc& chosen) {
  if (!chosen) return NoProductOfTheseShapes();
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(uses.y, DNNL_ARG_DIFF_DST, have.y, chosen.diff_dst_desc(), "output gradient");
  kernel->AddInput(uses.w, DNNL_ARG_WEIGHTS, have.w, chosen.weights_desc(), "weights");
  kernel->AddOutput(uses.x, DNNL_ARG_DIFF_SRC, have.x, chosen.diff_src_desc(), "input gradient");
  kernel->SetPrimitive(Primitive(chosen), chosen.scratchpad_desc());
  return {std::move(kernel)};
}

template <class Primitive>
PreparedKernel BackwardWeightsProduct(const TaskContext& context, const ProductUses& uses, const OperandLayouts& have,
                                      const typename Primitive::primitive_desc& chosen) {
  if (!chosen) return NoProductOfTheseShapes();
  const MemoryDesc bias = BiasDesc(context, uses);
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(uses.x, DNNL_ARG_SRC, have.x, chosen.src_desc(), "input");
  kernel->AddInput(uses.y, DNNL_ARG_DIFF_DST, have.y, chosen.diff_dst_desc(), "output gradient");
  kernel->AddOutput(uses.w, DNNL_ARG_DIFF_WEIGHTS, have.w, chosen.diff_weights_desc(), "weight gradient");
  if (uses.bias != ProductUses::kNone) kernel->AddOutput(uses.bias, DNNL_ARG_DIFF_BIAS, bias, bias, "bias gradient");
  kernel->SetPrimitive(Primitive(chosen), chosen.scratchpad_desc());
  return {std::move(kernel)};
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_PRODUCT_H_
