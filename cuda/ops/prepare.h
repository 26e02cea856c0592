// From an op of the Program to its calls: the one place where the variant is visited.
#ifndef COLONNADE_CUDA_PREPARE_H_
#define COLONNADE_CUDA_PREPARE_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask PrepareCompute(const program::Op& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_PREPARE_H_
