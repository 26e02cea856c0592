// Memory of a GPU: zero-filled, freed with its owner. What lies where in it is program/memory.h's business.
#ifndef COLONNADE_CUDA_ARENA_H_
#define COLONNADE_CUDA_ARENA_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "cuda/calls.h"

namespace colonnade::cuda {

class Arena {
 public:
  Arena() = default;
  // ResourceExhausted if the GPU has not so much. `calls` must outlive the result. No memory for 0 bytes.
  static absl::StatusOr<Arena> Allocate(Calls& calls, int gpu, int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(calls_, other.calls_);
    std::swap(gpu_, other.gpu_);
    std::swap(data_, other.data_);
    return *this;
  }

  char* data() const { return data_; }

 private:
  Calls* calls_ = nullptr;
  int gpu_ = 0;
  char* data_ = nullptr;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ARENA_H_
