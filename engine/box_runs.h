// The runs of a box: its elements that lie side by side both in the whole tensor and in the box, each of them row-major.
#ifndef COLONNADE_ENGINE_BOX_RUNS_H_
#define COLONNADE_ENGINE_BOX_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "program/types.h"

namespace colonnade::engine {

// Calls f(flat index in a row-major tensor of `shape`, flat index in the box, count) for each run of elements of the box
// `region` that lie side by side in both.
template <class F>
void ForEachRun(const program::Shape& shape, const program::Region& region, F f) {
  int outer = static_cast<int>(shape.size());  // dimensions [0, outer) are walked
  int64_t run = 1;
  for (bool whole = true; whole && outer > 0;) {
    --outer;
    run *= region.size[outer];
    whole = region.size[outer] == shape[outer];
  }
  program::Shape index = region.offset;
  const int64_t count = region.elements();
  for (int64_t local = 0; local < count; local += run) {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    f(flat, local, run);
    for (int d = outer - 1; d >= 0; --d) {
      if (++index[d] < region.offset[d] + region.size[d]) break;
      index[d] = region.offset[d];
    }
  }
}

// Returns where in a row-major tensor of `shape` the elements of the box `region` begin, if they lie side by side.
inline std::optional<int64_t> BeginOfSingleRun(const program::Shape& shape, const program::Region& region) {
  size_t outer = shape.size();  // dimensions [outer, rank) are whole
  while (outer > 0 && region.size[outer - 1] == shape[outer - 1]) --outer;
  int64_t begin = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d + 1 < outer && region.size[d] != 1) return std::nullopt;
    begin = begin * shape[d] + region.offset[d];
  }
  return begin;
}

// ForEachRun for each element: f(flat index in the tensor, flat index in the box).
template <class F>
void ForEachElement(const program::Shape& shape, const program::Region& region, F f) {
  ForEachRun(shape, region, [&](int64_t flat, int64_t local, int64_t run) {
    for (int64_t i = 0; i < run; ++i) f(flat + i, local + i);
  });
}

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_BOX_RUNS_H_
