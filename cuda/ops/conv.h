// Convolutions by cuDNN, on dense channels-last tensors; operands that are boxes of larger ones are packed first. In bf16
// cuDNN writes the gradient of weights in bf16, too, from where it is copied to f32.
#ifndef COLONNADE_CUDA_CONV_H_
#define COLONNADE_CUDA_CONV_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::ConvForward& op, const TaskContext& context);
PreparedTask Prepare(const program::ConvBackwardData& op, const TaskContext& context);
PreparedTask Prepare(const program::ConvBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CONV_H_
