// A task made ready to run: the kernel that an op file makes of an attribute struct and its operands.
//
// Prepare(op, context), one overload per op in the files named after their subject, chooses the algorithm and makes
// primitives; Kernel::Bind gives it memory; Kernel::Run executes it, once per step, on its lane's thread, and allocates
// nothing of its own.
#ifndef COLONNADE_CPU_TASK_CONTEXT_H_
#define COLONNADE_CPU_TASK_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cpu/load/view.h"
#include "cpu/onednn.h"
#include "engine/backend.h"
#include "engine/layouts.h"
#include "program/program.h"

namespace colonnade::cpu {

// What one use of a task touches; operands stand in the order of Task::uses.
struct Operand {
  View view;
  program::BufferId buffer;
  program::Access access = program::Access::kRead;
  std::vector<engine::MemberRange> members{};  // engine::MembersOf
};

struct TaskContext {
  const program::Program& program;
  const program::Task& task;
  std::vector<Operand> operands;
  int threads = 1;
  bool winograd = false;  // whether Winograd's algorithm may be used where it pays
  dnnl::engine engine;
  dnnl::stream stream;
  const engine::HostSlot* slots = nullptr;  // two of them
  std::vector<engine::AddedReorder>* added_reorders = nullptr;

  const View& view(int use) const { return operands[use].view; }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Returns the bytes of scratch memory that this kernel has to itself while it runs.
  virtual int64_t workspace_bytes() const { return 0; }
  // Gives the kernel its memory. data[use] is the base of the root buffer of that use.
  virtual void Bind(absl::Span<char* const> data, char* workspace) = 0;
  virtual absl::Status Run(int64_t step) = 0;
};

using PreparedKernel = absl::StatusOr<std::unique_ptr<Kernel>>;

// What a kernel made of a function is called with: the bases that Bind gave, and the step.
struct RunArguments {
  absl::InlinedVector<char*, 4> data;
  char* workspace = nullptr;
  int64_t step = 0;

  template <class T>
  T* as(int use) const {
    return reinterpret_cast<T*>(data[use]);
  }
};

// Returns where element 0 of an operand lies.
template <class T>
T* DataOf(const RunArguments& run, const TaskContext& context, int use) {
  return run.as<T>(use) + context.view(use).offset;
}

// Does the same for elements of any type.
inline char* BytesOf(absl::Span<char* const> data, const TaskContext& context, int use) {
  const View& view = context.view(use);
  return data[use] + view.offset * program::SizeInBytes(view.dtype);
}
inline char* BytesOf(const RunArguments& run, const TaskContext& context, int use) {
  return BytesOf(run.data, context, use);
}

// Makes a kernel of `run`, which takes const RunArguments& and returns absl::Status.
template <class Function>
std::unique_ptr<Kernel> MakeKernel(Function run, int64_t workspace_bytes = 0) {
  class FunctionKernel : public Kernel {
   public:
    FunctionKernel(Function run, int64_t workspace_bytes) : run_(std::move(run)), workspace_bytes_(workspace_bytes) {}
    int64_t workspace_bytes() const override { return workspace_bytes_; }
    void Bind(absl::Span<char* const> data, char* workspace) override {
      arguments_.data.assign(data.begin(), data.end());
      arguments_.workspace = workspace;
    }
    absl::Status Run(int64_t step) override {
      arguments_.step = step;
      return run_(static_cast<const RunArguments&>(arguments_));
    }

   private:
    Function run_;
    int64_t workspace_bytes_;
    RunArguments arguments_;
  };
  return std::make_unique<FunctionKernel>(std::move(run), workspace_bytes);
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_TASK_CONTEXT_H_
