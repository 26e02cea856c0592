// The plain loops of cpu/ref as kernels, for the oracle that everything else is compared with.
//
// All layouts are row-major here, so that any box is a strided tensor.
#ifndef COLONNADE_CPU_REFERENCE_H_
#define COLONNADE_CPU_REFERENCE_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel PrepareReference(const program::Op& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_REFERENCE_H_
