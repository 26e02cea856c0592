// The mean over each window; shapes and ceil_mode as for MaxPool.
//
//   y[n,c,p,q] = Σ_{r,s} x[n, c, p·stride+r−pad, q·stride+s−pad] / cells
//
// cells is the number of the window's cells that lie in the image, or with count_pad in the image and its `pad`. Those
// beyond that, which ceil_mode may add to the last windows, never count, as in PyTorch.
//
// Backward: dx is, for each cell, the sum of dy / cells over the windows that it is in.
// Cost       a flop for each cell that is added, forward and backward; nothing is kept.
// Strategies batch, and group over the channels: without communication.
// Errors     InvalidArgument where the input is not [C,H,W], kernel is below 1, pad is negative or not less than kernel, or
//            the window is larger than the padded image.
// Numerics   sums in f32 or, with the reference kernels, f64; rounded once.
// Source     of the defaults: PyTorch's AvgPool2d.
#ifndef COLONNADE_LAYERS_AVG_POOL_H_
#define COLONNADE_LAYERS_AVG_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct AvgPool {
  int64_t kernel = 2;
  int64_t kernel_w = 0;   // 0: as kernel
  int64_t stride = 0;     // 0: as the kernel
  int64_t pad = 0;        // on all sides; less than the kernel
  bool count_pad = true;  // padding counts in the divisor
  bool ceil_mode = false;
  bool operator==(const AvgPool&) const = default;
};

const char* TypeName(const AvgPool&);
std::vector<Field> Fields(AvgPool& pool);
absl::StatusOr<program::Shape> OutputSampleShape(const AvgPool& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const AvgPool& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const AvgPool& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const AvgPool& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_AVG_POOL_H_
