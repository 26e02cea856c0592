#include "cuda/load/host_staging.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "engine/io/pages.h"

namespace colonnade::cuda {

HostStaging::HostStaging(Calls& calls, const program::Program& program, const engine::HostSlot* slots)
    : calls_(calls), program_(program), slots_(slots), staged_{slots[0], slots[1]} {}

HostStaging::~HostStaging() {
  for (void* data : registered_) calls_.Unregister(data);
  for (void* data : outputs_) calls_.FreeHost(data);
}

absl::Status HostStaging::Take() {
  for (int slot = 0; slot < 2; ++slot) {
    RETURN_IF_ERROR(RegisterInputs(slots_[slot]));
    RETURN_IF_ERROR(TakeOutputs(staged_[slot]));
  }
  return absl::OkStatus();
}

absl::Status HostStaging::RegisterInputs(const engine::HostSlot& slot) {
  for (size_t i = 0; i < slot.inputs.size(); ++i) {
    const program::Input& input = program_.inputs[i];
    const int64_t bytes = program::ElementCount(input.shape) * program::SizeInBytes(input.host_dtype);
    // What shares a page with other things stays as it is: copies that begin in pinned memory must end in it.
    if (bytes == 0 || reinterpret_cast<uintptr_t>(slot.inputs[i]) % engine::kPageBytes != 0) continue;
    const auto pages = static_cast<int64_t>(engine::WholePages(static_cast<size_t>(bytes)));
    ASSIGN_OR_RETURN(const bool is_pinned, calls_.Register(slot.inputs[i], pages));
    if (is_pinned) {
      registered_.push_back(slot.inputs[i]);
    } else {
      refused_bytes_ += pages;
    }
  }
  return absl::OkStatus();
}

absl::Status HostStaging::TakeOutputs(engine::HostSlot& staged) {
  for (size_t o = 0; o < staged.outputs.size(); ++o) {
    for (size_t p = 0; p < staged.outputs[o].size(); ++p) {
      ASSIGN_OR_RETURN(void* taken, calls_.AllocateHost(std::max<int64_t>(OutputBytes(o, p), 1)));
      outputs_.push_back(taken);
      staged.outputs[o][p] = taken;
    }
  }
  return absl::OkStatus();
}

int64_t HostStaging::OutputBytes(size_t output, size_t piece) const {
  const program::Piece& what = program_.outputs[output].pieces[piece];
  return what.region.elements() * program::SizeInBytes(program_.buffer(what.buffer).dtype);
}

void HostStaging::DeliverOutputs(int64_t step) const {
  const engine::HostSlot &slot = slots_[step % 2], &staged = staged_[step % 2];
  for (size_t o = 0; o < slot.outputs.size(); ++o) {
    for (size_t p = 0; p < slot.outputs[o].size(); ++p) {
      std::memcpy(slot.outputs[o][p], staged.outputs[o][p], OutputBytes(o, p));
    }
  }
}

}  // namespace colonnade::cuda
