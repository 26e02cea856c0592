// From an op of the Program to its kernel: the overload of Prepare for its attributes, or the oracle.
#ifndef COLONNADE_CPU_PREPARE_H_
#define COLONNADE_CPU_PREPARE_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

// Returns oneDNN's kernel for `op` or our own loop, or, with `reference`, the plain loop of cpu/ref for all but data
// movement. Operands in bf16 become f32 in the workspace where there is no kernel for them.
PreparedKernel PrepareCompute(const program::Op& op, const TaskContext& context, bool reference);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_PREPARE_H_
