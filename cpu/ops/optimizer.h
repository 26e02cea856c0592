// Updates of parameters, and what they are scaled by; program/op.h has the formulas.
//
// Parts of buckets are worked on member by member, neighbours of equal factors at once. A sum of squares is that of its
// chunks, which are the same for any number of threads.
#ifndef COLONNADE_CPU_OPTIMIZER_H_
#define COLONNADE_CPU_OPTIMIZER_H_

#include "cpu/task_context.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::SgdUpdate& op, const TaskContext& context);
PreparedKernel Prepare(const program::AdamWUpdate& op, const TaskContext& context);
PreparedKernel Prepare(const program::AverageUpdate& op, const TaskContext& context);
PreparedKernel Prepare(const program::SquaredNorms& op, const TaskContext& context);
PreparedKernel Prepare(const program::UpdateGate& op, const TaskContext& context);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_OPTIMIZER_H_
