// How much memory a call asks operator new for at once, at most: readers of hostile files must not believe what those state.
//
// Replaces operator new and delete of the test program, so one source of it includes this, once. One thread measures at a time.
#ifndef COLONNADE_TESTS_LARGEST_ALLOCATION_H_
#define COLONNADE_TESTS_LARGEST_ALLOCATION_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace colonnade {

inline std::atomic<size_t> g_largest_allocation{0};

template <class F>
size_t LargestAllocationIn(F f) {
  g_largest_allocation = 0;
  f();
  return g_largest_allocation;
}

}  // namespace colonnade

// Not inlined: GCC would see a free of what a new gave.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (bytes > colonnade::g_largest_allocation.load(std::memory_order_relaxed)) colonnade::g_largest_allocation = bytes;
  if (void* memory = std::malloc(std::max<size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#endif  // COLONNADE_TESTS_LARGEST_ALLOCATION_H_
