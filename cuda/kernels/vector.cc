#include "cuda/kernels/vector.h"

#include <algorithm>

namespace colonnade::cuda {

bool LieInVectors(const Walk& walk, absl::Span<const Base> bases, int lanes) {
  if (walk.extent[0] % lanes != 0) return false;
  for (size_t v = 0; v < bases.size(); ++v) {
    const int64_t size = bases[v].element_bytes, access = std::min<int64_t>(size * lanes, kWidestAccess);
    const auto is_aligned = [&](int64_t elements) { return elements * size % access == 0; };
    if (reinterpret_cast<uintptr_t>(bases[v].data) % access != 0 || !is_aligned(walk.offset[v])) return false;
    if (walk.stride[v][0] != 1) return false;
    for (int d = 1; d < walk.rank; ++d) {
      if (!is_aligned(walk.stride[v][d])) return false;
    }
  }
  return true;
}

}  // namespace colonnade::cuda
