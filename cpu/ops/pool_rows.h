// Max pooling of row-major images by kernels of our own: oneDNN has fast ones for channel-blocked images alone.
//
// The argmax of a window is its place in the window, in row-major order, as a byte.
#ifndef COLONNADE_CPU_POOL_ROWS_H_
#define COLONNADE_CPU_POOL_ROWS_H_

#include "cpu/task_context.h"
#include "program/op.h"

namespace colonnade::cpu {

// Whether these kernels can pool x to y: both are row-major images of f32, and the places in a window fit a byte.
bool PoolsByRows(const program::Window& window, const View& x, const View& y);

// Makes the kernel. REQUIRES: PoolsByRows holds for the operands.
PreparedKernel PrepareByRows(const program::MaxPoolForward& op, const TaskContext& context);
PreparedKernel PrepareByRows(const program::MaxPoolBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_POOL_ROWS_H_
