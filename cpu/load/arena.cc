#include "cpu/load/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace colonnade::cpu {

absl::StatusOr<engine::Arena> AllocateArena(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  if (bytes <= 0) return engine::Arena();
  const int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const int64_t rounded = RoundUp(bytes, alignment);
  engine::Arena arena(static_cast<char*>(std::aligned_alloc(alignment, rounded)), [](char* data) { std::free(data); });
  if (arena == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the machine refused an allocation of ", rounded, " bytes"));
  }
  if (alignment == kHugePage) madvise(arena.get(), rounded, MADV_HUGEPAGE);  // a hint: its failure changes nothing
  std::memset(arena.get(), 0, rounded);
  return arena;
}

}  // namespace colonnade::cpu
