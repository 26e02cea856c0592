// Splits a loop over the threads of a device, always in the same way, so that results do not depend on load.
//
// One thread runs the loop without OpenMP.
#ifndef COLONNADE_CPU_PARALLEL_H_
#define COLONNADE_CPU_PARALLEL_H_

#include <cstdint>

#include "program/formulas/rounding.h"

namespace colonnade::cpu {

// Returns the size of parts of about equal size, of at most `most`, that `total` is cut into.
inline int64_t EvenPart(int64_t total, int64_t most) { return program::CeilDiv(total, program::CeilDiv(total, most)); }

// Calls body(begin, end) for `threads` ranges, in order and of nearly equal size, that together are [0, count).
template <class Body>
void ParallelFor(int threads, int64_t count, const Body& body) {
  if (threads <= 1 || count <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int t = 0; t < threads; ++t) {
    const int64_t begin = count * t / threads, end = count * (t + 1) / threads;
    if (begin < end) body(begin, end);
  }
}

// Calls body(begin, end, scratch) likewise, with the range's own `floats` floats of `workspace`; also for ranges that are
// empty, where there are more threads than `count`.
template <class Body>
void ParallelForWithScratch(int threads, int64_t count, int64_t floats, char* workspace, const Body& body) {
  ParallelFor(threads, threads, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      body(count * t / threads, count * (t + 1) / threads, reinterpret_cast<float*>(workspace) + t * floats);
    }
  });
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_PARALLEL_H_
