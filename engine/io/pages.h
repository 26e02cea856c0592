// Host memory in whole pages that nothing else shares, so that a backend may pin it.
#ifndef COLONNADE_ENGINE_PAGES_H_
#define COLONNADE_ENGINE_PAGES_H_

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace colonnade::engine {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t WholePages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}

  T* allocate(size_t count) {
    void* data = std::aligned_alloc(kPageBytes, WholePages(count * sizeof(T)));
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t) { std::free(data); }
  bool operator==(const PageAllocator&) const { return true; }
};

template <class T>
using PageVector = std::vector<T, PageAllocator<T>>;

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_PAGES_H_
