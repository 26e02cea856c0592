// Memory of a virtual device: zero-filled, aligned to cache lines, freed with its owner.
//
// What lies where in it is program/memory.h's business. Not thread safe.
#ifndef COLONNADE_CPU_ARENA_H_
#define COLONNADE_CPU_ARENA_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"

namespace colonnade::cpu {

inline constexpr int64_t kAlignment = 64;

inline int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

class Arena {
 public:
  Arena() = default;
  // ResourceExhausted if the machine has not so much. Large arenas ask for huge pages.
  static absl::StatusOr<Arena> Allocate(int64_t bytes);

  char* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
  int64_t bytes_ = 0;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ARENA_H_
