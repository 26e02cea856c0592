// The mean over each window; shapes as for MaxPool.
#ifndef COLONNADE_LAYERS_AVG_POOL_H_
#define COLONNADE_LAYERS_AVG_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct AvgPool {
  int64_t kernel = 2;
  int64_t stride = 0;     // 0: as kernel
  int64_t pad = 0;        // less than kernel
  bool count_pad = true;  // padding counts in the divisor
  bool operator==(const AvgPool&) const = default;
};

const char* TypeName(const AvgPool&);
absl::StatusOr<program::Shape> OutputSampleShape(const AvgPool& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const AvgPool& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const AvgPool& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const AvgPool& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const AvgPool& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const AvgPool& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_AVG_POOL_H_
