// y = x_0 + x_1 + …, of equal shapes.
#ifndef COLONNADE_LAYERS_ADD_H_
#define COLONNADE_LAYERS_ADD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct Add {
  bool operator==(const Add&) const = default;
};

const char* TypeName(const Add&);
absl::StatusOr<program::Shape> OutputSampleShape(const Add& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Add& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Add& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Add& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Add& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Add& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_ADD_H_
