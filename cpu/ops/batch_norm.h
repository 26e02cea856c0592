// Batch normalisation: our own loops, one pass over memory each.
//
// A pass is cut into tiles by shapes alone, whatever the number of threads, and partial sums are added in the order of the
// tiles: devices that compute the same, compute the same bits.
#ifndef COLONNADE_CPU_BATCH_NORM_H_
#define COLONNADE_CPU_BATCH_NORM_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::BatchNormSums& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormTrack& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormRecall& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormFold& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormBackwardSums& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormMaskedSums& op, const TaskContext& context);
PreparedKernel Prepare(const program::BatchNormBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_BATCH_NORM_H_
