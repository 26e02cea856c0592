// The mean over each window; shapes and ceil_mode as for MaxPool.
//
// The divisor is the number of the window's cells that lie in the image, or with count_pad in the image and its `pad`. Cells
// beyond that, which ceil_mode may add to the last windows, never count, as in PyTorch.
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
