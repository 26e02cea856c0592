#include "cpu/ops/gemm.h"

#include <utility>

#include "cpu/ops/choose.h"
#include "cpu/ops/primitive.h"
#include "cpu/ops/staging.h"

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

absl::Status NoProductKernel() { return absl::UnimplementedError("oneDNN has no inner product of these shapes"); }

}  // namespace

PreparedKernel Prepare(const program::FullyConnectedForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/1, [&op](const TaskContext& context) -> PreparedKernel {
    const int y = op.bias ? 3 : 2;
    const MemoryDesc bias = op.bias ? DescOf(context.view(2)) : MemoryDesc();
    dnnl::primitive_attr attr = UserScratchpad();
    if (op.relu) {
      dnnl::post_ops relu;
      AppendRelu(relu);
      attr.set_post_ops(relu);
    }
    const OperandLayouts have = {DescOf(context.view(0)), DescOf(context.view(1)), DescOf(context.view(y))};
    const auto desc =
        FirstOptimized(have, [&](const OperandLayouts& l) { return ForwardDesc(l, bias, attr, context.engine); });
    if (!desc) return NoProductKernel();
    auto kernel = std::make_unique<PrimitiveKernel>(context);
    kernel->AddInput(0, DNNL_ARG_SRC, have.x, desc.src_desc(), "input");
    kernel->AddInput(1, DNNL_ARG_WEIGHTS, have.w, desc.weights_desc(), "weights");
    if (op.bias) kernel->AddInput(2, DNNL_ARG_BIAS, bias, bias, "bias");
    kernel->AddOutput(y, DNNL_ARG_DST, have.y, desc.dst_desc(), "output");
    kernel->SetPrimitive(inner_product_forward(desc), desc.scratchpad_desc());
    return {std::move(kernel)};
  });
}

PreparedKernel Prepare(const program::FullyConnectedBackwardData&, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/1, [](const TaskContext& context) -> PreparedKernel {
    const OperandLayouts have = {DescOf(context.view(2)), DescOf(context.view(1)), DescOf(context.view(0))};
    const auto desc = FirstOptimized(have, [&](const OperandLayouts& l) {
      return BackwardDesc<inner_product_backward_data>(l, context.engine, l.x, l.w, l.y);
    });
    if (!desc) return NoProductKernel();
    auto kernel = std::make_unique<PrimitiveKernel>(context);
    kernel->AddInput(0, DNNL_ARG_DIFF_DST, have.y, desc.diff_dst_desc(), "output gradient");
    kernel->AddInput(1, DNNL_ARG_WEIGHTS, have.w, desc.weights_desc(), "weights");
    kernel->AddOutput(2, DNNL_ARG_DIFF_SRC, have.x, desc.diff_src_desc(), "input gradient");
    kernel->SetPrimitive(inner_product_backward_data(desc), desc.scratchpad_desc());
    return {std::move(kernel)};
  });
}

PreparedKernel Prepare(const program::FullyConnectedBackwardWeights& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/2, [&op](const TaskContext& context) -> PreparedKernel {
    const MemoryDesc bias = op.bias ? DescOf(context.view(3)) : MemoryDesc();
    const OperandLayouts have = {DescOf(context.view(0)), DescOf(context.view(2)), DescOf(context.view(1))};
    const auto desc = FirstOptimized(have, [&](const OperandLayouts& l) {
      return BackwardDesc<inner_product_backward_weights>(l, context.engine, l.x, l.w, bias, l.y);
    });
    if (!desc) return NoProductKernel();
    auto kernel = std::make_unique<PrimitiveKernel>(context);
    kernel->AddInput(0, DNNL_ARG_SRC, have.x, desc.src_desc(), "input");
    kernel->AddInput(1, DNNL_ARG_DIFF_DST, have.y, desc.diff_dst_desc(), "output gradient");
    kernel->AddOutput(2, DNNL_ARG_DIFF_WEIGHTS, have.w, desc.diff_weights_desc(), "weight gradient");
    if (op.bias) kernel->AddOutput(3, DNNL_ARG_DIFF_BIAS, bias, bias, "bias gradient");
    kernel->SetPrimitive(inner_product_backward_weights(desc), desc.scratchpad_desc());
    return {std::move(kernel)};
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
