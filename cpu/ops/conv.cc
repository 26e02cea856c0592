#include "cpu/ops/conv.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "cpu/ops/choose.h"
#include "cpu/ops/conv_rows.h"
#include "cpu/ops/conv_winograd.h"
#include "cpu/ops/gemm.h"
#include "cpu/ops/product.h"
#include "cpu/ops/staging.h"
#include "program/product_uses.h"

namespace colonnade::cpu {

using dnnl::algorithm;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::prop_kind;
using program::DType;
using program::Shape;
using program::Window;

namespace {

// Geometry of one convolution, and where its primitive descriptors are made.
struct ConvGeometry {
  dnnl::memory::dims strides, pad_begin, pad_end;
  MemoryDesc bias;
  dnnl::engine engine;

  // `bias`: absent, or as it lies.
  ConvGeometry(const Window& window, MemoryDesc bias, const dnnl::engine& engine)
      : strides{window.stride_h, window.stride_w},
        pad_begin{window.pad_top, window.pad_left},
        pad_end{window.pad_bottom, window.pad_right},
        bias(std::move(bias)),
        engine(engine) {}

  convolution_forward::primitive_desc Forward(const OperandLayouts& l, const dnnl::primitive_attr& attr) const {
    return Describe<convolution_forward>(engine, attr, prop_kind::forward_training, algorithm::convolution_direct, l.x, l.w,
                                         bias, l.y, strides, pad_begin, pad_end);
  }
  // Empty where oneDNN has no such forward convolution: it is what a backward one is described by.
  template <class Backward, class... Arguments>
  typename Backward::primitive_desc DescribeBackwardOf(const OperandLayouts& l, const Arguments&... operands) const {
    const convolution_forward::primitive_desc forward = Forward(OfForward(l), {});
    if (!forward) return {};
    return DescribeBackward<Backward>(engine, forward, UserScratchpad(), algorithm::convolution_direct, operands..., strides,
                                      pad_begin, pad_end);
  }
  convolution_backward_data::primitive_desc BackwardData(const OperandLayouts& l) const {
    return DescribeBackwardOf<convolution_backward_data>(l, l.x, l.w, l.y);
  }
  convolution_backward_weights::primitive_desc BackwardWeights(const OperandLayouts& l) const {
    return DescribeBackwardOf<convolution_backward_weights>(l, l.x, l.w, bias, l.y);
  }
};

// Weights as oneDNN sees them: a leading dimension of groups if there are several.
MemoryDesc WeightsDesc(const View& view, int64_t groups) {
  if (view.kind == View::Kind::kOpaque) return *view.desc;
  if (groups == 1) return DescOf(view);
  const Shape& s = view.shape;
  return MemoryDesc({groups, s[0] / groups, s[1], s[2], s[3]}, TypeOf(DescOf(view)), dnnl::memory::format_tag::goihw);
}

OperandLayouts LayoutsOfConvolution(const TaskContext& context, int64_t groups, const program::ProductUses& uses) {
  return {DescOf(context.view(uses.x)), WeightsDesc(context.view(uses.w), groups), DescOf(context.view(uses.y))};
}

// Its operands as those of a matrix product: a row for each image, or for each output of the weights.
TaskContext AsProduct(const TaskContext& context) {
  TaskContext product = context;
  for (Operand& operand : product.operands) {
    View& view = operand.view;
    if (view.shape.size() != 4) continue;
    const int64_t offset = view.offset;
    view = RowMajor(view.dtype, {view.shape[0], view.shape[1] * view.shape[2] * view.shape[3]});
    view.offset = offset;
  }
  return product;
}

template <class Op>
bool CanRunAsProduct(const Op& op, const TaskContext& context) {
  const auto view = [&](program::Role role) { return context.view(program::OperandOf(op, context.operands.size(), role)); };
  return IsProduct(op.window, op.groups, view(program::Role::kInput).shape) && InRows(view(program::Role::kInput)) &&
         InRows(view(program::Role::kWeight)) && IsDense(view(program::Role::kOutput));
}

template <class Op>
PreparedKernel ByRows(const Op& op, const TaskContext& context) {
  const bool in_f32 = absl::c_all_of(context.operands, [](const Operand& of) { return of.view.dtype == DType::kF32; });
  return in_f32 ? PrepareByRows(op, context) : absl::UnimplementedError("convolutions by rows are of f32");
}

// oneDNN's kernels want images in their natural layout; those in another one are reordered.
MemoryDesc NaturalImage(const MemoryDesc& desc) {
  const dnnl::memory::dims dims = DimsOf(desc);
  const DType dtype = TypeOf(desc) == dnnl::memory::data_type::bf16 ? DType::kBF16 : DType::kF32;
  return DescOf(Natural(dtype, Shape(dims.begin(), dims.end())));
}
OperandLayouts NaturalImages(const OperandLayouts& have) { return {NaturalImage(have.x), have.w, NaturalImage(have.y)}; }

// Whether oneDNN 2.6.3's kernel for weight gradients in bf16 is wrong. With more padding than kMostPad on the left or the
// right that of 1 or 3 channels is, by 9 to 25 % (relative norm); with less it was right in all cases tried. Of padded
// images that are narrower than the stride it reads scratch memory that nobody has written, whatever the channels.
bool IsWrongInBf16(const Window& window, const View& x) {
  constexpr int64_t kMostPad = 16;
  const bool is_narrow = window.pad_left > 0 && x.shape[3] < window.stride_w;
  return x.dtype == DType::kBF16 && (is_narrow || std::max(window.pad_left, window.pad_right) > kMostPad);
}

}  // namespace

PreparedKernel Prepare(const program::ConvForward& op, const TaskContext& outer) {
  if (CanRunAsProduct(op, outer))
    return Prepare(program::FullyConnectedForward{.bias = op.bias, .relu = op.relu}, AsProduct(outer));
  if (CanRunByRows(op, outer)) return ByRows(op, outer);
  return PrepareDense(outer, [&op](const TaskContext& context) -> PreparedKernel {
    if (CanRunByWinograd(op, context)) return PrepareByWinograd(op, context);
    const program::ProductUses uses = program::ForwardUses(op.bias);
    const ConvGeometry geometry(op.window, BiasDesc(context, uses), context.engine);
    const OperandLayouts have = LayoutsOfConvolution(context, op.groups, uses);
    const dnnl::primitive_attr attr = ProductAttributes(op.relu);
    return ForwardProduct<convolution_forward>(
        context, uses, have,
        FirstOptimized(NaturalImages(have), [&](const OperandLayouts& l) { return geometry.Forward(l, attr); }));
  });
}

PreparedKernel Prepare(const program::ConvBackwardData& op, const TaskContext& outer) {
  if (CanRunAsProduct(op, outer)) return Prepare(program::FullyConnectedBackwardData{}, AsProduct(outer));
  if (CanRunByRows(op, outer)) return ByRows(op, outer);
  return PrepareDense(outer, [&op](const TaskContext& context) -> PreparedKernel {
    if (CanRunByWinograd(op, context)) return PrepareByWinograd(op, context);
    const program::ProductUses uses = program::BackwardDataUses();
    const ConvGeometry geometry(op.window, MemoryDesc(), context.engine);
    const OperandLayouts have = LayoutsOfConvolution(context, op.groups, uses);
    return BackwardDataProduct<convolution_backward_data>(
        context, uses, have,
        FirstOptimized(NaturalImages(have), [&](const OperandLayouts& l) { return geometry.BackwardData(l); }));
  });
}

PreparedKernel Prepare(const program::ConvBackwardWeights& op, const TaskContext& outer) {
  if (CanRunAsProduct(op, outer)) return Prepare(program::FullyConnectedBackwardWeights{.bias = op.bias}, AsProduct(outer));
  if (CanRunByRows(op, outer)) return ByRows(op, outer);
  return PrepareDense(outer, [&op](const TaskContext& context) -> PreparedKernel {
    if (CanRunByWinograd(op, context)) return PrepareByWinograd(op, context);
    const program::ProductUses uses = program::BackwardWeightsUses(op.bias);
    if (IsWrongInBf16(op.window, context.view(uses.x))) return NoProductOfTheseShapes();
    const ConvGeometry geometry(op.window, BiasDesc(context, uses), context.engine);
    const OperandLayouts have = LayoutsOfConvolution(context, op.groups, uses);
    return BackwardWeightsProduct<convolution_backward_weights>(
        context, uses, have,
        FirstOptimized(NaturalImages(have), [&](const OperandLayouts& l) { return geometry.BackwardWeights(l); }));
  });
}

bool IsProduct(const Window& window, int64_t groups, const Shape& x) {
  const bool padded = window.pad_top != 0 || window.pad_bottom != 0 || window.pad_left != 0 || window.pad_right != 0;
  return groups == 1 && !padded && window.size_h == x[2] && window.size_w == x[3] && x[2] * x[3] > 1;
}

std::shared_ptr<const MemoryDesc> PreferredConvWeights(const Window& window, int64_t groups, DType dtype, const Shape& x,
                                                       const Shape& w, const Shape& y, const dnnl::engine& engine) {
  const ConvGeometry geometry(window, MemoryDesc(), engine);
  const MemoryDesc plain = WeightsDesc(RowMajor(dtype, w), groups);
  const MemoryDesc natural_x = DescOf(Natural(dtype, x)), natural_y = DescOf(Natural(dtype, y));
  const auto desc = FirstOptimized({natural_x, AnyLayout(plain), natural_y},
                                   [&](const OperandLayouts& l) { return geometry.Forward(l, UserScratchpad()); });
  if (!desc || desc.weights_desc() == plain) return nullptr;
  return std::make_shared<const MemoryDesc>(desc.weights_desc());
}

}  // namespace colonnade::cpu
