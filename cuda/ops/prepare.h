// From an op of the Program to its calls: the overload of Prepare for its attributes, once its operands are of types that
// kernels take.
#ifndef COLONNADE_CUDA_PREPARE_H_
#define COLONNADE_CUDA_PREPARE_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask PrepareCompute(const program::Op& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_PREPARE_H_
