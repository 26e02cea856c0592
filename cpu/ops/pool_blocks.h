// Max pooling of channel-blocked images of bf16 by kernels of our own, which add gradients in float and round each sum once:
// oneDNN's kernels round the sum after each gradient that they add.
//
// The argmax of a window is its place in the window, in row-major order, as a byte that lies where the maximum does.
#ifndef COLONNADE_CPU_POOL_BLOCKS_H_
#define COLONNADE_CPU_POOL_BLOCKS_H_

#include "cpu/task_context.h"
#include "program/op.h"

namespace colonnade::cpu {

// Whether these kernels can pool x to y: both are channel-blocked images of bf16, and the places in a window fit a byte.
bool PoolsByBlocks(const program::Window& window, const View& x, const View& y);

// Makes the kernel. REQUIRES: PoolsByBlocks holds for the operands.
PreparedKernel PrepareByBlocks(const program::MaxPoolForward& op, const TaskContext& context);
PreparedKernel PrepareByBlocks(const program::MaxPoolBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_POOL_BLOCKS_H_
