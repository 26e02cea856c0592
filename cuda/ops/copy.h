// Movement of data within a device, and between it and the host.
#ifndef COLONNADE_CUDA_COPY_H_
#define COLONNADE_CUDA_COPY_H_

#include "cuda/task_context.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::Load& op, const TaskContext& context);
PreparedTask Prepare(const program::Store& op, const TaskContext& context);
PreparedTask Prepare(const program::Copy& op, const TaskContext& context);
PreparedTask Prepare(const program::Normalise& op, const TaskContext& context);

// y = x for operands of equal shape, rounded where y is bf16 and x f32: one copy of bytes where both are dense and alike,
// else a kernel. `to_gpu` and `from_gpu` are where they lie; the kernel runs on any GPU that reaches both.
absl::StatusOr<Call> CopyCall(const Operand& x, const Operand& y, int from_gpu, int to_gpu);

// An operand in a dense layout of its own and of `dtype`, from a multiple of 16 bytes: itself if it is so, else a copy in
// `workspace`, and the call that makes it (input) or writes it back (output).
struct Packed {
  char* data = nullptr;
  std::vector<Call> before, after;
};
absl::StatusOr<Packed> PackInput(const TaskContext& context, int use, program::DType dtype, Workspace& workspace);
absl::StatusOr<Packed> PackOutput(const TaskContext& context, int use, program::DType dtype, Workspace& workspace);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_COPY_H_
