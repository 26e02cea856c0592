// The update of parameters, of whole tensors or of parts of buckets.
#ifndef COLONNADE_CUDA_OPTIMIZER_H_
#define COLONNADE_CUDA_OPTIMIZER_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

// Padding of buckets, which is 0 in gradient, momentum and weights, stays 0.
PreparedTask Prepare(const program::SgdUpdate& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_OPTIMIZER_H_
