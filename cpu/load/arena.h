// Memory of a virtual device, aligned to cache lines. What lies where in it is engine/loading.h's business.
#ifndef COLONNADE_CPU_ARENA_H_
#define COLONNADE_CPU_ARENA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/loading.h"

namespace colonnade::cpu {

// Zero-filled. ResourceExhausted if the machine has not so much. Large arenas ask for huge pages, and take each when it is
// touched.
absl::StatusOr<engine::Arena> AllocateArena(int64_t bytes);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ARENA_H_
