// Local response normalisation: our own loops, whose windows may be confined to groups of channels.
//
// The operand s holds the scale s_c in the layout of x.
#ifndef COLONNADE_CPU_LRN_H_
#define COLONNADE_CPU_LRN_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::LrnForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::LrnBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LRN_H_
