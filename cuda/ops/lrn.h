// Local response normalisation across channels, by kernels of our own: cuDNN knows no groups.
#ifndef COLONNADE_CUDA_LRN_H_
#define COLONNADE_CUDA_LRN_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::LrnForward& op, const TaskContext& context);
PreparedTask Prepare(const program::LrnBackward& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LRN_H_
