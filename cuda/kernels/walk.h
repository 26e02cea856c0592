// The elements of a box, numbered in the order in which they lie in memory, and where each is in every operand.
//
// Made on the host (WalkOver), read by threads on the device. Neighbouring dimensions that lie alike in all operands are
// one, so that whole tensors are one dimension without a division.
#ifndef COLONNADE_CUDA_WALK_H_
#define COLONNADE_CUDA_WALK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/load/view.h"
#include "program/formulas/host_device.h"

namespace colonnade::cuda {

inline constexpr int kMostOperands = 17;  // of a sum: 16 sources and a target

// a / b of numbers ≥ 0. GPUs divide 32 bits several times as fast as 64.
COLONNADE_HOST_DEVICE inline int64_t Quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

struct Walk {
  int64_t count = 0;
  int rank = 1;
  int64_t extent[4] = {1, 1, 1, 1};       // innermost first
  int64_t stride[kMostOperands][4] = {};  // by operand, then dimension
  int64_t offset[kMostOperands] = {};     // of element 0

  // Returns where element i of `operand` is, in elements from the operand's base.
  COLONNADE_HOST_DEVICE int64_t At(int operand, int64_t i) const {
    if (rank == 1) return offset[operand] + i * stride[operand][0];
    int64_t at = offset[operand];
    for (int d = 0; d < rank - 1; ++d) {
      const int64_t next = Quotient(i, extent[d]);
      at += (i - next * extent[d]) * stride[operand][d];
      i = next;
    }
    return at + i * stride[operand][rank - 1];
  }
};

// All views must have the shape of the first, of at most four dimensions. InvalidArgument if they have not, Unimplemented
// for more operands than kMostOperands.
absl::StatusOr<Walk> WalkOver(absl::Span<const View> views);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_WALK_H_
