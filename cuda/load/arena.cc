#include "cuda/load/arena.h"

#include "base/status_macros.h"

namespace colonnade::cuda {

absl::StatusOr<engine::Arena> AllocateArena(Calls& calls, int gpu, int64_t bytes) {
  if (bytes == 0) return engine::Arena();
  ASSIGN_OR_RETURN(void* data, calls.Allocate(gpu, bytes));
  return engine::Arena(static_cast<char*>(data), [&calls, gpu](char* freed) { calls.Free(gpu, freed); });
}

}  // namespace colonnade::cuda
