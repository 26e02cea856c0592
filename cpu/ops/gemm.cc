#include "cpu/ops/gemm.h"

#include "cpu/ops/choose.h"
#include "cpu/ops/product.h"
#include "cpu/ops/staging.h"
#include "program/product_uses.h"

namespace colonnade::cpu {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using program::DType;
using program::Shape;

namespace {

inner_product_forward::primitive_desc ForwardDesc(const OperandLayouts& l, const MemoryDesc& bias,
                                                  const dnnl::primitive_attr& attr, const dnnl::engine& engine) {
  return Describe<inner_product_forward>(engine, attr, dnnl::prop_kind::forward_training, l.x, l.w, bias, l.y);
}

// Empty where oneDNN has no such forward product: it is what a backward one is described by.
template <class Backward, class... Arguments>
typename Backward::primitive_desc BackwardDesc(const OperandLayouts& l, const dnnl::engine& engine,
                                               const Arguments&... operands) {
  const inner_product_forward::primitive_desc forward = ForwardDesc(OfForward(l), MemoryDesc(), {}, engine);
  if (!forward) return {};
  return DescribeBackward<Backward>(engine, forward, UserScratchpad(), operands...);
}

OperandLayouts LayoutsOfProduct(const TaskContext& context, const program::ProductUses& uses) {
  return {DescOf(context.view(uses.x)), DescOf(context.view(uses.w)), DescOf(context.view(uses.y))};
}

}  // namespace

PreparedKernel Prepare(const program::FullyConnectedForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/1, [&op](const TaskContext& context) -> PreparedKernel {
    const program::ProductUses uses = program::ForwardUses(op.bias);
    const MemoryDesc bias = BiasDesc(context, uses);
    const dnnl::primitive_attr attr = ProductAttributes(op.relu);
    const OperandLayouts have = LayoutsOfProduct(context, uses);
    return ForwardProduct<inner_product_forward>(context, uses, have, FirstOptimized(have, [&](const OperandLayouts& l) {
                                                   return ForwardDesc(l, bias, attr, context.engine);
                                                 }));
  });
}

PreparedKernel Prepare(const program::FullyConnectedBackwardData&, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/1, [](const TaskContext& context) -> PreparedKernel {
    const program::ProductUses uses = program::BackwardDataUses();
    const OperandLayouts have = LayoutsOfProduct(context, uses);
    return BackwardDataProduct<inner_product_backward_data>(
        context, uses, have, FirstOptimized(have, [&](const OperandLayouts& l) {
          return BackwardDesc<inner_product_backward_data>(l, context.engine, l.x, l.w, l.y);
        }));
  });
}

PreparedKernel Prepare(const program::FullyConnectedBackwardWeights& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/2, [&op](const TaskContext& context) -> PreparedKernel {
    const program::ProductUses uses = program::BackwardWeightsUses(op.bias);
    const MemoryDesc bias = BiasDesc(context, uses);
    const OperandLayouts have = LayoutsOfProduct(context, uses);
    return BackwardWeightsProduct<inner_product_backward_weights>(
        context, uses, have, FirstOptimized(have, [&](const OperandLayouts& l) {
          return BackwardDesc<inner_product_backward_weights>(l, context.engine, l.x, l.w, bias, l.y);
        }));
  });
}

std::shared_ptr<const MemoryDesc> PreferredFullyConnectedWeights(int64_t n, DType dtype, const Shape& w,
                                                                 const dnnl::engine& engine) {
  const MemoryDesc plain = DescOf(RowMajor(dtype, w));
  const OperandLayouts have = {DescOf(RowMajor(dtype, {n, w[1]})), AnyLayout(plain), DescOf(RowMajor(dtype, {n, w[0]}))};
  const auto desc =
      FirstOptimized(have, [&](const OperandLayouts& l) { return ForwardDesc(l, MemoryDesc(), UserScratchpad(), engine); });
  if (!desc || desc.weights_desc() == plain) return nullptr;
  return std::make_shared<const MemoryDesc>(desc.weights_desc());
}

}  // namespace colonnade::cpu
