// The images that the host provides: no parameters, no gradient.
#ifndef COLONNADE_LAYERS_INPUT_H_
#define COLONNADE_LAYERS_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/emit.h"
#include "layers/sharding.h"

namespace colonnade::layers {

struct Input {
  program::Shape sample_shape;  // {C, H, W}
  bool operator==(const Input&) const = default;
};

const char* TypeName(const Input&);
absl::StatusOr<program::Shape> OutputSampleShape(const Input& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Input& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Input& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Input& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Input& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Input& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_INPUT_H_
