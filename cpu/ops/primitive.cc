#include "cpu/ops/primitive.h"

#include <omp.h>

#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "cpu/alignment.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

using program::RoundUp;

void PrimitiveKernel::Execution::Clear() {
  memories.clear();
  arguments.clear();
}

void PrimitiveKernel::Execution::Add(int argument, const MemoryDesc& desc, const dnnl::engine& engine, void* data) {
  memories.emplace_back(desc, engine, data);
  arguments.push_back({argument, memories.back().get()});
}

void PrimitiveKernel::Execution::Run(const dnnl::stream& stream) const {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data()),
      "could not execute a primitive");
}

int64_t PrimitiveKernel::TakeWorkspace(int64_t bytes) {
  const int64_t offset = workspace_bytes_;
  workspace_bytes_ += RoundUp(bytes, kAlignmentBytes);
  return offset;
}

// oneDNN sizes a primitive's team by the thread that makes it.
void PrimitiveKernel::CheckTeam() const {
  if (omp_get_max_threads() == context_.threads) return;
  throw std::logic_error(absl::StrCat("a primitive for a device of ", base::Counted(context_.threads, "thread"),
                                      " is made on a thread of ", omp_get_max_threads()));
}

PrimitiveKernel::Execution PrimitiveKernel::MakeReorder(const MemoryDesc& from, const MemoryDesc& to) {
  CheckTeam();
  const dnnl::reorder::primitive_desc desc(context_.engine, from, context_.engine, to, UserScratchpad());
  const MemoryDesc scratchpad = desc.scratchpad_desc();
  return {dnnl::reorder(desc), TakeWorkspace(scratchpad.get_size()), scratchpad};
}

void PrimitiveKernel::AddArgument(Argument argument, absl::string_view what) {
  if (argument.have != argument.wanted) {
    argument.copy_offset = TakeWorkspace(argument.wanted.get_size());
    argument.reorder = static_cast<int>(reorders_.size());
    reorders_.push_back(argument.output ? MakeReorder(argument.wanted, argument.have)
                                        : MakeReorder(argument.have, argument.wanted));
    context_.added_reorders->push_back({context_.task.id,
                                        absl::StrCat(what, argument.output ? " from" : " to", " the layout of the kernel"),
                                        static_cast<int64_t>(argument.have.get_size() + argument.wanted.get_size())});
  }
  arguments_.push_back(std::move(argument));
}

void PrimitiveKernel::AddInput(int use, int argument, const MemoryDesc& have, const MemoryDesc& wanted,
                               absl::string_view what) {
  AddArgument({use, argument, /*output=*/false, have, wanted}, what);
}

void PrimitiveKernel::AddOutput(int use, int argument, const MemoryDesc& have, const MemoryDesc& wanted,
                                absl::string_view what) {
  AddArgument({use, argument, /*output=*/true, have, wanted}, what);
}

void PrimitiveKernel::SetPrimitive(const dnnl::primitive& primitive, const MemoryDesc& scratchpad) {
  CheckTeam();
  main_ = {primitive, TakeWorkspace(scratchpad.get_size()), scratchpad};
}

void PrimitiveKernel::SetReorder(int from_use, const MemoryDesc& from, int to_use, const MemoryDesc& to) {
  main_ = MakeReorder(from, to);
  arguments_.push_back({from_use, DNNL_ARG_FROM, false, from, from});
  arguments_.push_back({to_use, DNNL_ARG_TO, true, to, to});
}

void PrimitiveKernel::Bind(absl::Span<char* const> data, char* workspace) {
  main_.Clear();
  for (const Argument& argument : arguments_) {
    char* operand = BytesOf(data, context_, argument.use);
    if (argument.reorder < 0) {
      main_.Add(argument.argument, argument.have, context_.engine, operand);
      continue;
    }
    char* copy = workspace + argument.copy_offset;
    main_.Add(argument.argument, argument.wanted, context_.engine, copy);
    Execution& reorder = reorders_[argument.reorder];
    reorder.Clear();
    reorder.Add(argument.output ? DNNL_ARG_TO : DNNL_ARG_FROM, argument.have, context_.engine, operand);
    reorder.Add(argument.output ? DNNL_ARG_FROM : DNNL_ARG_TO, argument.wanted, context_.engine, copy);
    reorder.Add(DNNL_ARG_SCRATCHPAD, reorder.scratchpad, context_.engine, workspace + reorder.scratchpad_offset);
  }
  main_.Add(DNNL_ARG_SCRATCHPAD, main_.scratchpad, context_.engine, workspace + main_.scratchpad_offset);
}

absl::Status PrimitiveKernel::Run(int64_t) {
  for (const Argument& argument : arguments_) {
    if (argument.reorder >= 0 && !argument.output) reorders_[argument.reorder].Run(context_.stream);
  }
  main_.Run(context_.stream);
  for (const Argument& argument : arguments_) {
    if (argument.reorder >= 0 && argument.output) reorders_[argument.reorder].Run(context_.stream);
  }
  return absl::OkStatus();
}

bool IsReferenceImplementation(absl::string_view implementation) {
  return absl::StartsWith(implementation, "ref") || absl::StrContains(implementation, "ref:any");
}

MemoryDesc PlainDescLike(const MemoryDesc& desc, std::optional<dnnl::memory::data_type> type) {
  const dnnl::memory::dims dims = DimsOf(desc);
  dnnl::memory::dims strides(dims.size(), 1);
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * dims[d + 1];
  return MemoryDesc(dims, type.value_or(TypeOf(desc)), strides);
}

void Reorder(const dnnl::engine& engine, const MemoryDesc& from, const void* from_data, const MemoryDesc& to,
             void* to_data) {
  dnnl::stream stream(engine);
  dnnl::memory source(from, engine, const_cast<void*>(from_data)), target(to, engine, to_data);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

}  // namespace colonnade::cpu
