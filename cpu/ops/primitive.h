// A oneDNN primitive bound to a task's operands, with reorders around it where a layout is not the one that it wants.
//
// Primitives are made on the compute lane's thread of their device, since oneDNN fixes the number of threads at creation.
#ifndef COLONNADE_CPU_PRIMITIVE_H_
#define COLONNADE_CPU_PRIMITIVE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cpu/onednn.h"
#include "cpu/task_context.h"

namespace colonnade::cpu {

class PrimitiveKernel : public Kernel {
 public:
  explicit PrimitiveKernel(const TaskContext& context) : context_(context) {}

  // The primitive reads, or writes, operand `use`, which lies as `have`, in the layout `wanted`. `what` names the operand in
  // added_reorders.
  void AddInput(int use, int argument, const MemoryDesc& have, const MemoryDesc& wanted, absl::string_view what);
  void AddOutput(int use, int argument, const MemoryDesc& have, const MemoryDesc& wanted, absl::string_view what);
  void SetPrimitive(const dnnl::primitive& primitive, const MemoryDesc& scratchpad);
  // Operand `to_use` = operand `from_use` in another layout. Instead of the three above.
  void SetReorder(int from_use, const MemoryDesc& from, int to_use, const MemoryDesc& to);

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  void Bind(absl::Span<char* const> data, char* workspace) override;
  absl::Status Run(int64_t step) override;

 private:
  // A primitive with the argument list that oneDNN takes, so that running it allocates nothing of ours.
  struct Execution {
    dnnl::primitive primitive;
    int64_t scratchpad_offset = 0;
    MemoryDesc scratchpad;
    std::vector<dnnl::memory> memories = {};
    std::vector<dnnl_exec_arg_t> arguments = {};

    void Clear();
    void Add(int argument, const MemoryDesc& desc, const dnnl::engine& engine, void* data);
    void Run(const dnnl::stream& stream) const;
  };
  struct Argument {
    int use, argument;
    bool output;
    MemoryDesc have, wanted;
    int reorder = -1;  // index of the Execution that converts, where the layouts differ
    int64_t copy_offset = 0;
  };

  void CheckTeam() const;
  void AddArgument(Argument argument, absl::string_view what);
  Execution MakeReorder(const MemoryDesc& from, const MemoryDesc& to);
  int64_t TakeWorkspace(int64_t bytes);

  const TaskContext context_;
  std::vector<Argument> arguments_;
  std::vector<Execution> reorders_;
  Execution main_;
  int64_t workspace_bytes_ = 0;
};

// True if oneDNN has only its plain loops for this case.
bool IsReferenceImplementation(absl::string_view implementation);

// Returns the row-major layout of the same logical tensor, of another element type if `type` says so.
MemoryDesc PlainDescLike(const MemoryDesc& desc, std::optional<dnnl::memory::data_type> type = std::nullopt);

// to = from, at once; allocates.
void Reorder(const dnnl::engine& engine, const MemoryDesc& from, const void* from_data, const MemoryDesc& to, void* to_data);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_PRIMITIVE_H_
