// Local response normalisation: our own loops, whose windows may be confined to groups of channels.
//
// Backward works the scales s_c out anew, instead of reading them from memory.
#ifndef COLONNADE_CPU_LRN_H_
#define COLONNADE_CPU_LRN_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::LrnForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::LrnBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LRN_H_
