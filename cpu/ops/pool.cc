#include "cpu/ops/pool.h"

#include <algorithm>
#include <utility>

#include "cpu/ops/primitive.h"
#include "cpu/ops/staging.h"

namespace colonnade::cpu {

using dnnl::algorithm;
using dnnl::prop_kind;
using program::DType;
using program::Shape;
using program::Window;

namespace {

struct PoolGeometry {
  MemoryDesc x, y;
  dnnl::memory::dims strides, size, dilation = {0, 0}, pad_begin, pad_end;

  PoolGeometry(const Window& window, const Shape& x_shape, const Shape& y_shape)
      : x(DescOf(Natural(DType::kF32, x_shape))),
        y(DescOf(Natural(DType::kF32, y_shape))),
        strides{window.stride_h, window.stride_w},
        size{window.size_h, window.size_w},
        pad_begin{window.pad_h, window.pad_w} {
    // Windows that begin inside may reach beyond pad; oneDNN wants to be told how far.
    for (int d = 0; d < 2; ++d) {
      const int64_t reach = (y_shape[2 + d] - 1) * strides[d] + size[d] - x_shape[2 + d] - pad_begin[d];
      pad_end.push_back(std::max(pad_begin[d], reach));
    }
  }

  PoolingForward::primitive_desc Forward(prop_kind kind, algorithm what, const dnnl::engine& engine) const {
    return Describe<PoolingForward>(engine, UserScratchpad(), kind, what, x, y, strides, size, dilation, pad_begin, pad_end);
  }
  PoolingBackward::primitive_desc Backward(algorithm what, const dnnl::engine& engine) const {
    return DescribeBackward<PoolingBackward>(engine, Forward(prop_kind::forward_training, what, engine), UserScratchpad(),
                                             what, x, y, strides, size, dilation, pad_begin, pad_end);
  }
};

algorithm Average(bool count_pad) {
  return count_pad ? algorithm::pooling_avg_include_padding : algorithm::pooling_avg_exclude_padding;
}

absl::Status NoPoolKernel() { return absl::UnimplementedError("oneDNN has no pooling of these shapes"); }

PreparedKernel PrepareForward(const Window& window, algorithm what, bool with_argmax, const TaskContext& context) {
  const PoolGeometry geometry(window, context.view(0).shape, context.view(1).shape);
  const auto desc =
      geometry.Forward(with_argmax ? prop_kind::forward_training : prop_kind::forward_inference, what, context.engine);
  if (!desc) return NoPoolKernel();
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  kernel->AddInput(0, DNNL_ARG_SRC, geometry.x, desc.src_desc(), "input");
  kernel->AddOutput(1, DNNL_ARG_DST, geometry.y, desc.dst_desc(), "output");
  if (with_argmax) kernel->AddOutput(2, DNNL_ARG_WORKSPACE, desc.workspace_desc(), desc.workspace_desc(), "argmax");
  kernel->SetPrimitive(PoolingForward(desc), desc.scratchpad_desc());
  return {std::move(kernel)};
}

PreparedKernel PrepareBackward(const Window& window, algorithm what, bool with_argmax, const TaskContext& context) {
  const int dy = with_argmax ? 1 : 0, dx = dy + 1;
  const PoolGeometry geometry(window, context.view(dx).shape, context.view(dy).shape);
  const auto desc = geometry.Backward(what, context.engine);
  if (!desc) return NoPoolKernel();
  auto kernel = std::make_unique<PrimitiveKernel>(context);
  if (with_argmax) kernel->AddInput(0, DNNL_ARG_WORKSPACE, desc.workspace_desc(), desc.workspace_desc(), "argmax");
  kernel->AddInput(dy, DNNL_ARG_DIFF_DST, geometry.y, desc.diff_dst_desc(), "output gradient");
  kernel->AddOutput(dx, DNNL_ARG_DIFF_SRC, geometry.x, desc.diff_src_desc(), "input gradient");
  kernel->SetPrimitive(PoolingBackward(desc), desc.scratchpad_desc());
  return {std::move(kernel)};
}

}  // namespace

PreparedKernel Prepare(const program::MaxPoolForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) {
    return PrepareForward(op.window, algorithm::pooling_max, context.operands.size() == 3, context);
  });
}

PreparedKernel Prepare(const program::MaxPoolBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) {
    return PrepareBackward(op.window, algorithm::pooling_max, /*with_argmax=*/true, context);
  });
}

PreparedKernel Prepare(const program::AvgPoolForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) {
    return PrepareForward(op.window, Average(op.count_pad), /*with_argmax=*/false, context);
  });
}

PreparedKernel Prepare(const program::AvgPoolBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) {
    return PrepareBackward(op.window, Average(op.count_pad), /*with_argmax=*/false, context);
  });
}

absl::StatusOr<int64_t> ArgmaxBytes(const Window& window, const Shape& x, const Shape& y, const dnnl::engine& engine) {
  const auto desc = PoolGeometry(window, x, y).Forward(prop_kind::forward_training, algorithm::pooling_max, engine);
  if (!desc) return NoPoolKernel();
  return static_cast<int64_t>(desc.workspace_desc().get_size());
}

}  // namespace colonnade::cpu
