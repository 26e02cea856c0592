#include "cuda/load/arena.h"

#include "program/status_macros.h"

namespace colonnade::cuda {

absl::StatusOr<Arena> Arena::Allocate(Calls& calls, int gpu, int64_t bytes) {
  Arena arena;
  if (bytes == 0) return arena;
  ASSIGN_OR_RETURN(void* data, calls.Allocate(gpu, bytes));
  arena.calls_ = &calls;
  arena.gpu_ = gpu;
  arena.data_ = static_cast<char*>(data);
  return arena;
}

Arena::~Arena() {
  if (data_ != nullptr) calls_->Free(gpu_, data_);
}

}  // namespace colonnade::cuda
