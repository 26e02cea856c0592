#include "cpu/load/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cpu/alignment.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// Whole pages that are given back to the kernel read as zeros. It clears each when it is touched first, which is the work of
// the device that uses it; a page that no step uses costs nothing.
bool GiveBack(char* pages, int64_t bytes) { return madvise(pages, bytes, MADV_DONTNEED) == 0; }

}  // namespace

absl::StatusOr<engine::Arena> AllocateArena(int64_t bytes) {
  if (bytes <= 0) return engine::Arena();
  const bool is_large = bytes >= 2 * kHugePage;
  const int64_t alignment = is_large ? kHugePage : kAlignmentBytes;
  // aligned_alloc wants whole alignments; what lies behind the pages that are used is only addresses.
  const int64_t asked = program::RoundUp(bytes, alignment),
                used = program::RoundUp(bytes, is_large ? ::sysconf(_SC_PAGESIZE) : kAlignmentBytes);
  engine::Arena arena(static_cast<char*>(std::aligned_alloc(alignment, asked)), [](char* data) { std::free(data); });
  if (arena == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the machine refused an allocation of ", asked, " bytes"));
  }
  if (is_large) {  // hints, of which failures change nothing; the rest may have been of a larger arena
    madvise(arena.get(), used, MADV_HUGEPAGE);
    madvise(arena.get() + used, asked - used, MADV_NOHUGEPAGE);
  }
  if (!is_large || !GiveBack(arena.get(), used)) std::memset(arena.get(), 0, used);
  return arena;
}

}  // namespace colonnade::cpu
