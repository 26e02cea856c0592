// Softmax and cross entropy, with sums in double.
#ifndef COLONNADE_CPU_SOFTMAX_H_
#define COLONNADE_CPU_SOFTMAX_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

// A label that is no class makes Run fail with InvalidArgument.
PreparedKernel Prepare(const program::SoftmaxCrossEntropyForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::CountLabels& op, const TaskContext& context);
PreparedKernel Prepare(const program::SoftmaxCrossEntropyBackward& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_SOFTMAX_H_
