// A task made ready to run: the calls that it is, made by one Prepare overload per op in the files named after their
// subject.
//
// Prepare(op, context) needs no GPU: it computes shapes and addresses. It is called twice, first without memory to learn how
// much workspace the calls want.
#ifndef COLONNADE_CUDA_TASK_CONTEXT_H_
#define COLONNADE_CUDA_TASK_CONTEXT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "cuda/kernels/vector.h"
#include "cuda/load/layout.h"
#include "engine/backend.h"
#include "engine/layouts.h"
#include "program/formulas/rounding.h"
#include "program/program.h"

namespace colonnade::cuda {

// What a use of a task touches, in the order of Task::uses.
struct Operand {
  View view;
  char* base = nullptr;                        // of its root buffer
  std::vector<engine::MemberRange> members{};  // engine::MembersOf
};

struct TaskContext {
  const program::Program& program;
  const program::Task& task;
  std::vector<Operand> operands;
  char* workspace = nullptr;
  int gpu = 0;
  Precision precision = Precision::kF32;
  bool deterministic = false;
  const engine::HostSlot* host = nullptr;                     // of the steps that the calls are for, even or odd ones
  std::function<absl::StatusOr<int64_t>(Call&)> choose = {};  // Calls::Prepare on this GPU
  std::vector<engine::AddedReorder>* added_reorders = nullptr;

  const View& view(int use) const { return operands[use].view; }
  // Base of the root that an operand lies in; views' offsets count from there.
  template <class T>
  T* base(int use) const {
    return reinterpret_cast<T*>(operands[use].base);
  }
  // Element 0 of an operand.
  template <class T>
  T* at(int use) const {
    return base<T>(use) + view(use).offset;
  }
};

// Calls make(T{}) with the type in which a kernel finds elements of `dtype`. REQUIRES: f32 or bf16, which PrepareCompute
// checks of every tensor.
template <class Make>
auto InTypeOf(program::DType dtype, const Make& make) {
  switch (dtype) {
    case program::DType::kBF16:
      return make(program::BFloat16{});
    case program::DType::kF32:
    case program::DType::kF64:
    case program::DType::kI32:
    case program::DType::kU8:
      break;
  }
  return make(float{});
}

// Calls make(Vector<T, lanes>{}) likewise: with vectors as wide as an access, or of one element.
template <class Make>
Call InVectorsOf(program::DType dtype, bool wide, const Make& make) {
  return InTypeOf(dtype,
                  [&]<class T>(T) { return wide ? Call(make(Vector<T, kLanesOf<T>>{})) : Call(make(Vector<T, 1>{})); });
}

struct TaskCalls {
  std::vector<Call> calls;
  int64_t workspace_bytes = 0;
};
using PreparedTask = absl::StatusOr<TaskCalls>;

// Workspace taken piece by piece, each aligned for any tensor. Pieces are null while it is only measured.
class Workspace {
 public:
  explicit Workspace(const TaskContext& context) : base_(context.workspace) {}
  template <class T>
  T* Take(int64_t elements) {
    T* piece = base_ != nullptr ? reinterpret_cast<T*>(base_ + bytes_) : nullptr;
    bytes_ += program::RoundUp(elements * static_cast<int64_t>(sizeof(T)), kAlignment);
    return piece;
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_TASK_CONTEXT_H_
