// The maximum over each window; of equal values the first in row-major order has the gradient.
//
//   y[n,c,p,q] = max_{r,s} x[n, c, p·stride+r−pad, q·stride+s−pad] over the cells within the image
//
//   x [n,C,H,W]   y [n,C,P,Q],   P = (H + 2·pad − kernel)/stride + 1 rounded down, Q likewise
//
// With ceil_mode extents are rounded up, if the last window still begins inside the image or the padding before it, as in
// PyTorch; what that window has beyond the padded image is padding too.
//
// Backward: each dy goes to the cell of its maximum, whose place in the window forward keeps in a byte; dx is the sum of
//           those that a cell gets.
// Cost       kernel² flop for each y forward, one backward.
// Strategies batch, and group over the channels: without communication.
// Errors     InvalidArgument where the input is not [C,H,W], kernel is not from 1 to 15, pad is negative or not less than
//            kernel, or the window is larger than the padded image, whatever ceil_mode says.
// Numerics   exact forward; sums of gradients in f32.
// Source     of the defaults: PyTorch's MaxPool2d.
#ifndef COLONNADE_LAYERS_MAX_POOL_H_
#define COLONNADE_LAYERS_MAX_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct MaxPool {
  int64_t kernel = 2;  // at most 15
  int64_t stride = 0;  // 0: as kernel
  int64_t pad = 0;     // on all sides; less than kernel
  bool ceil_mode = false;
  bool operator==(const MaxPool&) const = default;
};

const char* TypeName(const MaxPool&);
std::vector<Field> Fields(MaxPool& pool);
absl::StatusOr<program::Shape> OutputSampleShape(const MaxPool& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const MaxPool& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const MaxPool& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const MaxPool& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_MAX_POOL_H_
