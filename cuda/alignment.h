// What an address is a multiple of: libraries choose faster kernels where it is more.
#ifndef COLONNADE_CUDA_ALIGNMENT_H_
#define COLONNADE_CUDA_ALIGNMENT_H_

#include <algorithm>
#include <cstdint>

namespace colonnade::cuda {

// Returns the largest power of two, at most 16 and at least that of an element, of which the address is a multiple.
// REQUIRES: element_bytes is a power of two, and the address a multiple of it.
inline uint32_t AlignmentOf(const void* address, int64_t element_bytes) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(address) | 16;
  return static_cast<uint32_t>(std::max<int64_t>(static_cast<int64_t>(bits & (~bits + 1)), element_bytes));
}

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ALIGNMENT_H_
