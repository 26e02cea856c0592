// The maximum over each window; of equal values the first in row-major order has the gradient.
//
//   x [n,C,H,W]   y [n,C,P,Q],   P = (H + 2·pad − kernel)/stride + 1 rounded down, Q likewise
//
// With ceil_mode extents are rounded up, if the last window still begins inside the image or the padding before it, as in
// PyTorch; what that window has beyond the padded image is padding too. A window larger than the padded image is refused
// either way.
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
