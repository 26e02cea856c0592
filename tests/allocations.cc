#include "tests/allocations.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> largest{0};
std::atomic<int64_t> count{0}, held{0}, most_held{0};

template <class T>
void Raise(std::atomic<T>& most, T value) {
  T before = most.load(std::memory_order_relaxed);
  while (value > before && !most.compare_exchange_weak(before, value)) {
  }
}

void* TryToAllocate(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  Raise(largest, bytes);
  void* memory = std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) return nullptr;
  const auto got = static_cast<int64_t>(malloc_usable_size(memory));
  Raise(most_held, held.fetch_add(got, std::memory_order_relaxed) + got);
  return memory;
}

void* Allocate(size_t bytes) {
  if (void* memory = TryToAllocate(bytes)) return memory;
  throw std::bad_alloc();
}

void Free(void* memory) {
  held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}
}  // namespace

// Not inlined: GCC would see a free of what a new gave.
[[gnu::noinline]] void* operator new(size_t bytes) { return Allocate(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return Allocate(bytes); }
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return TryToAllocate(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return TryToAllocate(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { Free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { Free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { Free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { Free(memory); }

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

int64_t PeakBytesIn(const std::function<void()>& f) {
  const int64_t before = held;
  most_held = before;
  f();
  return most_held - before;
}

}  // namespace colonnade
