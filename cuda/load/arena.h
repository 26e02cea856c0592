// Memory of a GPU. What lies where in it is engine/loading.h's business.
#ifndef COLONNADE_CUDA_ARENA_H_
#define COLONNADE_CUDA_ARENA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "engine/loading.h"

namespace colonnade::cuda {

// Zero-filled. ResourceExhausted if the GPU has not so much. `calls` must outlive the result.
absl::StatusOr<engine::Arena> AllocateArena(Calls& calls, int gpu, int64_t bytes);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ARENA_H_
