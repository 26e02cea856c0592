// Batch normalisation by kernels of our own: cuDNN's keeps sums in float and adds them in no fixed order, and knows neither
// groups nor sums that devices share.
#ifndef COLONNADE_CUDA_BATCH_NORM_H_
#define COLONNADE_CUDA_BATCH_NORM_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::BatchNormSums& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormForward& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormTrack& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormRecall& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormFold& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormBackwardSums& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormMaskedSums& op, const TaskContext& context);
PreparedTask Prepare(const program::BatchNormBackward& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_BATCH_NORM_H_
