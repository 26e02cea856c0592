// Global tensors and the boxes of them that buffers hold.
#ifndef COLONNADE_ENGINE_PIECES_H_
#define COLONNADE_ENGINE_PIECES_H_

#include <cstdint>

#include "program/types.h"

namespace colonnade::engine {

// Calls f(flat index in a row-major tensor of `shape`, flat index in the box) for each element of the box `region`.
template <class F>
void ForEachElement(const program::Shape& shape, const program::Region& region, F f) {
  program::Shape index = region.offset;
  const int64_t count = region.elements();
  for (int64_t local = 0; local < count; ++local) {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    f(flat, local);
    for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d) {
      if (++index[d] < region.offset[d] + region.size[d]) break;
      index[d] = region.offset[d];
    }
  }
}

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_PIECES_H_
