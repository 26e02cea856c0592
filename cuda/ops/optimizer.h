// Updates of parameters, and what they are scaled by; program/op.h has the formulas.
#ifndef COLONNADE_CUDA_OPTIMIZER_H_
#define COLONNADE_CUDA_OPTIMIZER_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::SgdUpdate& op, const TaskContext& context);
PreparedTask Prepare(const program::AdamWUpdate& op, const TaskContext& context);
PreparedTask Prepare(const program::AverageUpdate& op, const TaskContext& context);
PreparedTask Prepare(const program::SquaredNorms& op, const TaskContext& context);
PreparedTask Prepare(const program::UpdateGate& op, const TaskContext& context);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_OPTIMIZER_H_
