#include "cuda/arena.h"

namespace colonnade::cuda {

absl::StatusOr<Arena> Arena::Allocate(Calls& calls, int gpu, int64_t bytes) {
  Arena arena;
  if (bytes == 0) return arena;
  absl::StatusOr<void*> data = calls.Allocate(gpu, bytes);
  if (!data.ok()) return data.status();
  arena.calls_ = &calls;
  arena.gpu_ = gpu;
  arena.data_ = static_cast<char*>(*data);
  return arena;
}

Arena::~Arena() {
  if (data_ != nullptr) calls_->Free(gpu_, data_);
}

}  // namespace colonnade::cuda
