#include "cpu/ops/pool.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpu/alignment.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"
#include "cpu/ops/pool_blocks.h"
#include "cpu/ops/pool_rows.h"
#include "cpu/ops/primitive.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/bfloat16.h"
#include "program/formulas/rounding.h"
#include "program/formulas/window.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

using dnnl::algorithm;
using dnnl::prop_kind;
using program::DType;
using program::RoundUp;
using program::Shape;
using program::Window;

namespace {

struct PoolGeometry {
  MemoryDesc x, y;
  dnnl::memory::dims strides, size, dilation = {0, 0}, pad_begin, pad_end;

  PoolGeometry(const Window& window, const View& x_view, const View& y_view)
      : x(DescOf(x_view)),
        y(DescOf(y_view)),
        strides{window.stride_h, window.stride_w},
        size{window.size_h, window.size_w},
        pad_begin{window.pad_top, window.pad_left},
        pad_end{window.pad_bottom, window.pad_right} {}

  PoolingForward::primitive_desc Forward(prop_kind kind, algorithm what, const dnnl::engine& engine) const {
    return Describe<PoolingForward>(engine, UserScratchpad(), kind, what, x, y, strides, size, dilation, pad_begin, pad_end);
  }
  PoolingBackward::primitive_desc Backward(algorithm what, const dnnl::engine& engine) const {
    return DescribeBackward<PoolingBackward>(engine, Forward(prop_kind::forward_training, what, engine), UserScratchpad(),
                                             what, x, y, strides, size, dilation, pad_begin, pad_end);
  }
};

// A mean's cells along rows or columns: those of window `i`, and how many of them count (op.h).
struct Cells {
  int64_t begin, end, counted;

  Cells(int64_t i, int64_t size, int64_t stride, int64_t pad, bool count_pad, int64_t extent) {
    const int64_t first = i * stride - pad;
    begin = std::max<int64_t>(first, 0);
    end = std::min(first + size, extent);
    counted = program::CountedCells(first, size, extent, count_pad ? pad : 0);
  }
};

// The means of an op from images x to images y.
template <class Op>
struct Means {
  Op op;
  Shape x, y;

  Cells Rows(int64_t p) const { return {p, op.window.size_h, op.window.stride_h, op.window.pad_top, op.count_pad, x[2]}; }
  Cells Columns(int64_t q) const {
    return {q, op.window.size_w, op.window.stride_w, op.window.pad_left, op.count_pad, x[3]};
  }

  // oneDNN divides by a window's cells, all or those in the image. Nothing where neither is right for every window.
  std::optional<algorithm> Known() const {
    if (!op.count_pad) return algorithm::pooling_avg_exclude_padding;
    const bool whole = Rows(y[2] - 1).counted == op.window.size_h && Columns(y[3] - 1).counted == op.window.size_w;
    if (whole) return algorithm::pooling_avg_include_padding;
    const bool nothing_counts = op.window.pad_top == 0 && op.window.pad_left == 0;  // of the padding
    return nothing_counts ? std::optional(algorithm::pooling_avg_exclude_padding) : std::nullopt;
  }

  // Calls f(rows, columns, pixel of y, divisor) for the windows of a plane.
  template <class F>
  COLONNADE_INLINE void ForEachWindow(const F& f) const {
    for (int64_t p = 0; p < y[2]; ++p) {
      const Cells rows = Rows(p);
      for (int64_t q = 0; q < y[3]; ++q) {
        const Cells columns = Columns(q);
        f(rows, columns, p * y[3] + q, static_cast<float>(rows.counted * columns.counted));
      }
    }
  }
};

// A plane of what SumMeans makes.
template <bool kBack, class Op, class T>
COLONNADE_VECTOR_CLONES void SumPlane(const Means<Op>& means, int64_t lanes, const T* from, int64_t size, float* sums,
                                      T* to) {
  std::fill_n(sums, size, 0.0f);
  means.ForEachWindow([&](const Cells& rows, const Cells& columns, int64_t out, float divisor) COLONNADE_INLINE_LAMBDA {
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const int64_t in = h * means.x[3] + w;
        for (int64_t l = 0; l < lanes; ++l) {
          if (kBack) {
            sums[in * lanes + l] += from[out * lanes + l] / divisor;
          } else {
            sums[out * lanes + l] += from[in * lanes + l];
          }
        }
      }
    }
    for (int64_t l = 0; !kBack && l < lanes; ++l) sums[out * lanes + l] /= divisor;
  });
  for (int64_t i = 0; i < size; ++i) Put(sums[i], to[i]);
}

// Without oneDNN: use 1 = the sum of use 0 over its divisors, made in float and rounded once; kBack: from y to x. Images in
// f32 seldom need it.
template <bool kBack, class Op, class T>
PreparedKernel SumMeans(T, const Means<Op>& means, const TaskContext& context) {
  const int64_t lanes = context.view(0).kind == View::Kind::kBlocked ? kChannelBlock : 1;
  const auto plane_of = [&](int use) { return context.view(use).shape[2] * context.view(use).shape[3] * lanes; };
  const int64_t from_plane = plane_of(0), to_plane = plane_of(1), planes = means.x[0] * means.x[1] / lanes;
  const int64_t scratch = RoundUp(to_plane, kAlignmentFloats);  // floats of a thread
  const auto run = [means, context, lanes, from_plane, to_plane, planes, scratch](const RunArguments& of) {
    ParallelForWithScratch(context.threads, planes, scratch, of.workspace, [&](int64_t begin, int64_t end, float* sums) {
      for (int64_t p = begin; p < end; ++p) {
        SumPlane<kBack>(means, lanes, DataOf<const T>(of, context, 0) + p * from_plane, to_plane, sums,
                        DataOf<T>(of, context, 1) + p * to_plane);
      }
    });
    return absl::OkStatus();
  };
  return MakeKernel(run, context.threads * scratch * static_cast<int64_t>(sizeof(float)));
}

bool IsBf16(const View& view) { return view.dtype == DType::kBF16; }

// oneDNN's kernels in bf16 round each addition of a gradient, and our own are slow on rows.
absl::Status NoBf16Pooling() { return absl::UnimplementedError("poolings of bf16 run on copies in f32"); }

absl::Status NoPoolKernel() { return absl::UnimplementedError("oneDNN has no pooling of these shapes"); }

PreparedKernel PrepareForward(const Window& window, algorithm what, bool with_argmax, const TaskContext& context) {
  const PoolGeometry geometry(window, context.view(0), context.view(1));
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
  const PoolGeometry geometry(window, context.view(dx), context.view(dy));
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
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    if (PoolsByRows(op.window, context.view(0), context.view(1))) return PrepareByRows(op, context);
    if (PoolsByBlocks(op.window, context.view(0), context.view(1))) return PrepareByBlocks(op, context);
    if (IsBf16(context.view(0))) return NoBf16Pooling();
    return PrepareForward(op.window, algorithm::pooling_max, program::HasOptionalOperands(op, context.operands.size()),
                          context);
  });
}

PreparedKernel Prepare(const program::MaxPoolBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    if (PoolsByRows(op.window, context.view(2), context.view(1))) return PrepareByRows(op, context);
    if (PoolsByBlocks(op.window, context.view(2), context.view(1))) return PrepareByBlocks(op, context);
    if (IsBf16(context.view(2))) return NoBf16Pooling();
    return PrepareBackward(op.window, algorithm::pooling_max, /*with_argmax=*/true, context);
  });
}

PreparedKernel Prepare(const program::AvgPoolForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const Means<program::AvgPoolForward> means = {op, context.view(0).shape, context.view(1).shape};
    if (IsBf16(context.view(0)) && InRows(context.view(0)) && means.Known()) return NoBf16Pooling();
    if (IsBf16(context.view(0))) return SumMeans</*kBack=*/false>(program::BFloat16(), means, context);
    if (!means.Known()) return SumMeans</*kBack=*/false>(float(), means, context);
    return PrepareForward(op.window, *means.Known(), /*with_argmax=*/false, context);
  });
}

PreparedKernel Prepare(const program::AvgPoolBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const Means<program::AvgPoolBackward> means = {op, context.view(1).shape, context.view(0).shape};
    if (IsBf16(context.view(0)) && InRows(context.view(0)) && means.Known()) return NoBf16Pooling();
    if (IsBf16(context.view(0))) return SumMeans</*kBack=*/true>(program::BFloat16(), means, context);
    if (!means.Known()) return SumMeans</*kBack=*/true>(float(), means, context);
    return PrepareBackward(op.window, *means.Known(), /*with_argmax=*/false, context);
  });
}

absl::StatusOr<int64_t> ArgmaxBytes(const Window& window, const View& x, const View& y, const dnnl::engine& engine) {
  const int64_t of_own = program::ElementCount(y.shape);  // by rows and by blocks: a byte each
  if (PoolsByRows(window, x, y)) return of_own;
  const auto desc = PoolGeometry(window, x, y).Forward(prop_kind::forward_training, algorithm::pooling_max, engine);
  if (!desc) return NoPoolKernel();
  return std::max(of_own, static_cast<int64_t>(desc.workspace_desc().get_size()));
}

}  // namespace colonnade::cpu
