// The update of parameters, of whole tensors or of parts of buckets.
#ifndef COLONNADE_CPU_OPTIMIZER_H_
#define COLONNADE_CPU_OPTIMIZER_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

// Gradient, momentum and weights must share one layout; padding, which is 0 in all three, stays 0.
PreparedKernel Prepare(const program::SgdUpdate& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_OPTIMIZER_H_
