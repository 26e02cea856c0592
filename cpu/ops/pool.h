// Pooling on oneDNN. The note of where maxima were is oneDNN's workspace: bytes that only these kernels understand.
#ifndef COLONNADE_CPU_POOL_H_
#define COLONNADE_CPU_POOL_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::MaxPoolForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::MaxPoolBackward& op, const TaskContext& context);
PreparedKernel Prepare(const program::AvgPoolForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::AvgPoolBackward& op, const TaskContext& context);

// Bytes of the argmax operand of a pooling of x to y.
absl::StatusOr<int64_t> ArgmaxBytes(const program::Window& window, const program::Shape& x, const program::Shape& y,
                                    const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_POOL_H_
