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
#include "program/product_uses.h"

namespace colonnade::cpu {

// Empty where there is no bias.
inline MemoryDesc BiasDesc(const TaskContext& context, const program::ProductUses& uses) {
  return uses.bias == program::ProductUses::kNone ? MemoryDesc() : DescOf(context.view(uses.bias));
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
PreparedKernel ForwardProduct(const TaskContext& context, const program::ProductUses& uses, const OperandLayouts& have,
                              const typename Primitive::primitive_desc& chosen) {
  if (!chosen) return NoProductOfTheseShapes();
  const MemoryDesc bias = BiasDesc(context, uses);
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(uses.x, DNNL_ARG_SRC, have.x, chosen.src_desc(), "input");
  kernel->AddInput(uses.w, DNNL_ARG_WEIGHTS, have.w, chosen.weights_desc(), "weights");
  if (uses.bias != program::ProductUses::kNone) kernel->AddInput(uses.bias, DNNL_ARG_BIAS, bias, bias, "bias");
  kernel->AddOutput(uses.y, DNNL_ARG_DST, have.y, chosen.dst_desc(), "output");
  kernel->SetPrimitive(Primitive(chosen), chosen.scratchpad_desc());
  return {std::move(kernel)};
}

template <class Primitive>
PreparedKernel BackwardDataProduct(const TaskContext& context, const program::ProductUses& uses, const OperandLayouts& have,
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
PreparedKernel BackwardWeightsProduct(const TaskContext& context, const program::ProductUses& uses,
                                      const OperandLayouts& have, const typename Primitive::primitive_desc& chosen) {
  if (!chosen) return NoProductOfTheseShapes();
  const MemoryDesc bias = BiasDesc(context, uses);
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(uses.x, DNNL_ARG_SRC, have.x, chosen.src_desc(), "input");
  kernel->AddInput(uses.y, DNNL_ARG_DIFF_DST, have.y, chosen.diff_dst_desc(), "output gradient");
  kernel->AddOutput(uses.w, DNNL_ARG_DIFF_WEIGHTS, have.w, chosen.diff_weights_desc(), "weight gradient");
  if (uses.bias != program::ProductUses::kNone)
    kernel->AddOutput(uses.bias, DNNL_ARG_DIFF_BIAS, bias, bias, "bias gradient");
  kernel->SetPrimitive(Primitive(chosen), chosen.scratchpad_desc());
  return {std::move(kernel)};
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_PRODUCT_H_
