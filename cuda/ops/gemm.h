// Fully connected layers by cuBLASLt, with bias and ReLU in the product's epilogue.
#ifndef COLONNADE_CUDA_GEMM_H_
#define COLONNADE_CUDA_GEMM_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::FullyConnectedForward& op, const TaskContext& context);
PreparedTask Prepare(const program::FullyConnectedBackwardData& op, const TaskContext& context);
PreparedTask Prepare(const program::FullyConnectedBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_GEMM_H_
