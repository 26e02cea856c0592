// Layer normalisation by kernels of our own: images lie channels last, so that the channels of a position are neighbours.
#ifndef COLONNADE_CUDA_LAYER_NORM_H_
#define COLONNADE_CUDA_LAYER_NORM_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::LayerNormForward& op, const TaskContext& context);
PreparedTask Prepare(const program::LayerNormBackwardData& op, const TaskContext& context);
PreparedTask Prepare(const program::LayerNormBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LAYER_NORM_H_
