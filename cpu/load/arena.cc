#include "cpu/load/arena.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace colonnade::cpu {

absl::StatusOr<Arena> Arena::Allocate(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  Arena arena;
  if (bytes <= 0) return arena;
  const int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const int64_t rounded = RoundUp(bytes, alignment);
  arena.data_.reset(static_cast<char*>(std::aligned_alloc(alignment, rounded)));
  if (arena.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the machine refused an allocation of ", rounded, " bytes"));
  }
  if (alignment == kHugePage) madvise(arena.data_.get(), rounded, MADV_HUGEPAGE);  // a hint: its failure changes nothing
  std::memset(arena.data_.get(), 0, rounded);
  arena.bytes_ = bytes;
  return arena;
}

}  // namespace colonnade::cpu
