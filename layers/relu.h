// y = max(x, 0), element by element.
#ifndef COLONNADE_LAYERS_RELU_H_
#define COLONNADE_LAYERS_RELU_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct Relu {
  bool operator==(const Relu&) const = default;
};

const char* TypeName(const Relu&);
absl::StatusOr<program::Shape> OutputSampleShape(const Relu& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Relu& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Relu& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Relu& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Relu& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Relu& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_RELU_H_
