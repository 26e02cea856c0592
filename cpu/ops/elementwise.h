// Loops over elements: sums, biases, activations, dropout, and the check that all is finite.
//
// The formulas stand in program/formulas/math.h. Operands may be any boxes in any layouts; loops follow the memory.
#ifndef COLONNADE_CPU_ELEMENTWISE_H_
#define COLONNADE_CPU_ELEMENTWISE_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::Sum& op, const TaskContext& context);
PreparedKernel Prepare(const program::BiasForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::BiasBackward& op, const TaskContext& context);
PreparedKernel Prepare(const program::ActivationForward& op, const TaskContext& context);
PreparedKernel Prepare(const program::ActivationBackward& op, const TaskContext& context);
PreparedKernel Prepare(const program::Dropout& op, const TaskContext& context);
PreparedKernel Prepare(const program::CheckFinite& op, const TaskContext& context);

// Returns the views of `count` operands for a loop over elements; opaque ones as flat memory. InvalidArgument if shapes or
// opaque layouts differ.
absl::StatusOr<std::vector<View>> ElementwiseViews(const TaskContext& context, int first_use, int count);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ELEMENTWISE_H_
