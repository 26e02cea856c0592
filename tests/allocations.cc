#include "tests/allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> largest{0};
std::atomic<int64_t> count{0};

void* TryToAllocate(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  size_t before = largest.load(std::memory_order_relaxed);
  while (bytes > before && !largest.compare_exchange_weak(before, bytes)) {
  }
  return std::malloc(std::max<size_t>(bytes, 1));
}

void* Allocate(size_t bytes) {
  if (void* memory = TryToAllocate(bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Not inlined: GCC would see a free of what a new gave.
[[gnu::noinline]] void* operator new(size_t bytes) { return Allocate(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return Allocate(bytes); }
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return TryToAllocate(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return TryToAllocate(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace colonnade {

size_t LargestAllocationIn(const std::function<void()>& f) {
  largest = 0;
  f();
  return largest;
}

int64_t AllocationsIn(const std::function<void()>& f) {
  count = 0;
  f();
  return count;
}

}  // namespace colonnade
