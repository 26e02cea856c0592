// Pooling on oneDNN, or by kernels of our own: maxima by rows (pool_rows.h), what is bf16 in blocks (pool_blocks.h). Only
// the family of kernels that wrote an argmax can read its bytes.
#ifndef COLONNADE_CPU_POOL_H_
#define COLONNADE_CPU_POOL_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::MaxPoolForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::MaxPoolBackward& op, const TaskContext& context);
PreparedKernel Prepare(const program::AvgPoolForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::AvgPoolBackward& op, const TaskContext& context);

// Returns the bytes of the argmax operand of a pooling of x to y.
absl::StatusOr<int64_t> ArgmaxBytes(const program::Window& window, const View& x, const View& y, const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_POOL_H_
