// x [n,C,H,W] → y [n, C·H·W], row-major.
#ifndef COLONNADE_LAYERS_FLATTEN_H_
#define COLONNADE_LAYERS_FLATTEN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct Flatten {
  bool operator==(const Flatten&) const = default;
};

const char* TypeName(const Flatten&);
absl::StatusOr<program::Shape> OutputSampleShape(const Flatten& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Flatten& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Flatten& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Flatten& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Flatten& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Flatten& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_FLATTEN_H_
