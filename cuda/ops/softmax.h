// Softmax with cross entropy, its metrics and its gradient. A label that is no class makes the loss NaN: a kernel has no
// Status.
#ifndef COLONNADE_CUDA_SOFTMAX_H_
#define COLONNADE_CUDA_SOFTMAX_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::SoftmaxCrossEntropyForward& op, const TaskContext& context);
PreparedTask Prepare(const program::CountLabels& op, const TaskContext& context);
PreparedTask Prepare(const program::SoftmaxCrossEntropyBackward& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_SOFTMAX_H_
