#include "refused_memory.h"

#include <atomic>
#include <cstdlib>

namespace {
std::atomic<int> requests_until_refusal{-1};  // −1: none is refused
}

extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (requests_until_refusal.load() >= 0 && requests_until_refusal.fetch_sub(1) == 0) return nullptr;
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

namespace colonnade::cpu {

RefusedMemory::RefusedMemory(int at) { requests_until_refusal = at; }
RefusedMemory::~RefusedMemory() { requests_until_refusal = -1; }

}  // namespace colonnade::cpu
