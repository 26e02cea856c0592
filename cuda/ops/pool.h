// Maximum and mean over windows, by kernels of our own: of equal values the first counts, and no sum depends on an order of
// threads.
#ifndef COLONNADE_CUDA_POOL_H_
#define COLONNADE_CUDA_POOL_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::MaxPoolForward& op, const TaskContext& context);
PreparedTask Prepare(const program::MaxPoolBackward& op, const TaskContext& context);
PreparedTask Prepare(const program::AvgPoolForward& op, const TaskContext& context);
PreparedTask Prepare(const program::AvgPoolBackward& op, const TaskContext& context);

// Returns the operand's extents and strides; dimensions that it has not are 1. REQUIRES: at most four.
Image ImageOf(const View& view);

// Whether kernels can take wide vectors of `dtype`'s channels of all of `images`, whatever type these are.
bool HaveWideChannels(program::DType dtype, absl::Span<const Operand> images);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_POOL_H_
