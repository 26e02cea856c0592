// What arenas hold when they are given, and which of their pages the machine has to give.
#include "cpu/load/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cpu/alignment.h"
#include "gtest/gtest.h"

namespace colonnade::cpu {
namespace {

constexpr int64_t kLarge = int64_t{8} << 20;  // of huge pages

engine::Arena Allocated(int64_t bytes) {
  absl::StatusOr<engine::Arena> arena = AllocateArena(bytes);
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

int64_t PagesInMemory(const engine::Arena& arena, int64_t bytes) {
  std::vector<unsigned char> pages(bytes / ::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(::mincore(arena.get(), bytes, pages.data()), 0);
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

int64_t ResidentBytes() {
  int64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

bool IsZero(const engine::Arena& arena, int64_t bytes) {
  return std::all_of(arena.get(), arena.get() + bytes, [](char byte) { return byte == 0; });
}

// The allocator gives the second the memory of the first, which is no longer zero. glibc's keeps what is freed once
// something larger has been freed.
void ExpectZeroWhereMemoryWasUsed(int64_t bytes) {
  Allocated(3 * bytes).reset();
  for (int i = 0; i < 3; ++i) {
    const engine::Arena arena = Allocated(bytes);
    EXPECT_TRUE(IsZero(arena, bytes)) << bytes << " bytes, time " << i;
    std::memset(arena.get(), 0x55, bytes);
  }
}

TEST(Arena, IsZeroWhateverLayThere) {
  for (int64_t bytes : {kAlignmentBytes, int64_t{1} << 16, kLarge}) ExpectZeroWhereMemoryWasUsed(bytes);
}

TEST(Arena, LargeOnesTakeNoPageBeforeItIsTouched) {
  for (int i = 0; i < 2; ++i) {
    const engine::Arena arena = Allocated(kLarge);
    EXPECT_EQ(PagesInMemory(arena, kLarge), 0) << "time " << i;
    std::memset(arena.get(), 0x55, kLarge);
    EXPECT_EQ(PagesInMemory(arena, kLarge), kLarge / ::sysconf(_SC_PAGESIZE)) << "time " << i;
  }
}

// What is counted against a device's limit is what it takes: its last huge page is not taken whole for a few bytes, also
// where it lies in what was a larger arena.
TEST(Arena, TakesNoMoreThanItsBytes) {
  std::string huge_pages;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), huge_pages);
  if (huge_pages.empty() || huge_pages.find("[never]") != std::string::npos) GTEST_SKIP() << "skipped: no huge pages here";
  const int64_t page = ::sysconf(_SC_PAGESIZE), bytes = kLarge + page;
  for (int i = 0; i < 3; ++i) {
    Allocated(3 * bytes).reset();
    const engine::Arena arena = Allocated(bytes);
    const int64_t before = ResidentBytes();
    std::memset(arena.get(), 0x55, bytes);
    EXPECT_LE(ResidentBytes() - before, bytes + 64 * page) << "time " << i;
  }
}

// Locked pages are not given back.
TEST(Arena, IsZeroWhereMemoryIsLocked) {
  const engine::Arena used = Allocated(kLarge);
  std::memset(used.get(), 0x55, kLarge);
  if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) GTEST_SKIP() << "skipped: this process may not lock its memory";
  ExpectZeroWhereMemoryWasUsed(kLarge);
  EXPECT_EQ(::munlockall(), 0);
}

}  // namespace
}  // namespace colonnade::cpu
