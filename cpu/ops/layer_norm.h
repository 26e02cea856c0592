// Layer normalisation: our own loops over tiles of 16 neighbours in memory.
//
// Sums over samples and positions are cut into pieces by shapes alone, whatever the number of threads, and partial sums are
// added in the order of the pieces: devices that compute the same, compute the same bits.
#ifndef COLONNADE_CPU_LAYER_NORM_H_
#define COLONNADE_CPU_LAYER_NORM_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::LayerNormForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::LayerNormBackwardData& op, const TaskContext& context);
PreparedKernel Prepare(const program::LayerNormBackwardWeights& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LAYER_NORM_H_
