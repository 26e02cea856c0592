// Convolution of 3 x 3 and 5 x 5 by Winograd's algorithm, in kernels of our own, on images in blocks of channels and
// row-major weights: by winograd_loops.h they multiply 4 and 6.25 times less often than direct kernels. A window of 9
// to 12 or of 17 to 20 pixels a side, with stride 4, is run as one of 3 x 3 or 5 x 5 over squares of 4 x 4 pixels, each of
// which is taken for one pixel of 16 channels.
//
// The relative error is some 1e-6 where a direct kernel's is 1e-7. Kernels for bf16 compute in float, too, and round what
// they write once; but where the processor has AVX512_BF16 and no AMX, 3 x 3 of many channels multiply 2.25 times less often
// in bf16, which rounds each factor once more: the relative error is some 4e-3. For a number of threads, sums are taken in
// one order, so that a run gives equal bits each time; plans cut images and channels differently, so that their bits differ.
#ifndef COLONNADE_CPU_CONV_WINOGRAD_H_
#define COLONNADE_CPU_CONV_WINOGRAD_H_

#include <type_traits>

#include "cpu/task_context.h"
#include "program/op.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

// Whether a convolution of images x, of `dtype`, to images y, or back, lies as Winograd's kernels want it, which are then
// the faster ones where there are tiles enough (HasTilesForWinograd). The shapes decide, not a timing, and not the number of
// images, so that Programs of one layer want one layout of its weights. If so, x and y must be in blocks of channels (with a
// stride of 4, x in rows) and weights in rows. The gradient of x at a stride of 4 is computed by direct kernels all the
// same.
bool ConvolvesByWinograd(const program::Window& window, int64_t groups, program::DType dtype, const program::Shape& x,
                         const program::Shape& y);

// Whether images y have tiles enough for Winograd's kernels to be faster on so many threads.
bool HasTilesForWinograd(const program::Shape& y, int threads);

inline bool LieForWinograd(const program::Window& window, const View& x, const View& y) {
  return y.kind == View::Kind::kBlocked && (window.stride_h == 1 ? x.kind == View::Kind::kBlocked : InRows(x));
}

// Whether Winograd's kernels can run `op` and are the faster ones. REQUIRES: its operands are all dense.
template <class Op>
bool CanRunByWinograd(const Op& op, const TaskContext& context) {
  const auto view = [&](program::Role role) { return context.view(program::OperandOf(op, context.operands.size(), role)); };
  const View x = view(program::Role::kInput), y = view(program::Role::kOutput), w = view(program::Role::kWeight);
  const bool has_kernel = !std::is_same_v<Op, program::ConvBackwardData> || op.window.stride_h == 1;
  return context.winograd && has_kernel && LieForWinograd(op.window, x, y) && InRows(w) &&
         ConvolvesByWinograd(op.window, op.groups, x.dtype, x.shape, y.shape) &&
         HasTilesForWinograd(y.shape, context.threads);
}
PreparedKernel PrepareByWinograd(const program::ConvForward& op, const TaskContext& context);
PreparedKernel PrepareByWinograd(const program::ConvBackwardData& op, const TaskContext& context);
PreparedKernel PrepareByWinograd(const program::ConvBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CONV_WINOGRAD_H_
