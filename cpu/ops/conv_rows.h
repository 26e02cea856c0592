// Convolution of few channels by kernels of our own, on row-major images: oneDNN's direct kernels hold 16 channels in a
// vector and so compute with zeros, or load each value for one block of outputs alone.
//
// Sums of products are fused, in the order of channel, row and column of the window for y and dx, so that exact data give
// equal bits under every plan.
#ifndef COLONNADE_CPU_CONV_ROWS_H_
#define COLONNADE_CPU_CONV_ROWS_H_

#include "absl/algorithm/container.h"
#include "cpu/task_context.h"
#include "program/op.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

// Whether, on this processor, these kernels are faster than oneDNN's for a convolution of images x to images y, or back.
// The shapes decide, not a timing, so that all tasks of a layer and all runs agree. If so, x and y must be row-major.
bool ConvolvesByRows(const program::Window& window, int64_t groups, const program::Shape& x, const program::Shape& y);

// Whether these kernels can run `op`: its operands are dense and row-major, and ConvolvesByRows holds for their shapes.
template <class Op>
bool CanRunByRows(const Op& op, const TaskContext& context) {
  const int x = program::OperandOf(op, context.operands.size(), program::Role::kInput),
            y = program::OperandOf(op, context.operands.size(), program::Role::kOutput);
  return ConvolvesByRows(op.window, op.groups, context.view(x).shape, context.view(y).shape) &&
         absl::c_all_of(context.operands, [](const Operand& operand) { return InRows(operand.view); });
}
PreparedKernel PrepareByRows(const program::ConvForward& op, const TaskContext& context);
PreparedKernel PrepareByRows(const program::ConvBackwardData& op, const TaskContext& context);
PreparedKernel PrepareByRows(const program::ConvBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CONV_ROWS_H_
