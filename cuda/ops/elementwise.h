// Sums, biases, activations, dropout, and the check that a gradient is finite.
#ifndef COLONNADE_CUDA_ELEMENTWISE_H_
#define COLONNADE_CUDA_ELEMENTWISE_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::Sum& op, const TaskContext& context);
PreparedTask Prepare(const program::BiasForward& op, const TaskContext& context);
// Sums in double.
PreparedTask Prepare(const program::BiasBackward& op, const TaskContext& context);
PreparedTask Prepare(const program::ActivationForward& op, const TaskContext& context);
PreparedTask Prepare(const program::ActivationBackward& op, const TaskContext& context);
PreparedTask Prepare(const program::Dropout& op, const TaskContext& context);
PreparedTask Prepare(const program::CheckFinite& op, const TaskContext& context);

// How sums over `positions` of `vectors` of channels are cut into blocks: a column of threads for each of some vectors, and
// parts of the positions.
struct ChannelBlocks {
  int columns;
  int64_t parts;
};
ChannelBlocks ChannelBlocksFor(int64_t positions, int64_t vectors);

// Appends db [K] = Σ dy [n, K, …]; what BiasBackward and the gradients of weights share.
absl::Status AppendChannelSums(const Operand& dy, const Operand& db, Workspace& workspace, std::vector<Call>& calls);

// Appends target = Σ sources, in their order; of f32, bf16, f64 or i32, Unimplemented for others. The target, which may be
// one of the sources, is written by the last call.
absl::Status AppendSum(absl::Span<const Operand> sources, const Operand& target, Workspace& workspace,
                       std::vector<Call>& calls);

// y = x + bias over dimension 1, or max(·, 0) of it; y may be x. x is of the type of y, or f32.
absl::StatusOr<Call> AddBiasCall(const Operand& x, const Operand& bias, const Operand& y, bool relu);
absl::StatusOr<Call> ActivationCall(program::Activation activation, const Operand& x, const Operand& y);
// Returns what a product leaves to be done where no library does it in the same kernel: y = y + bias, if there is one, then
// max(·, 0) of it. REQUIRES: bias or relu.
absl::StatusOr<Call> BiasAndReluCall(const Operand& y, const Operand* bias, bool relu);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ELEMENTWISE_H_
