// The images that the host provides.
//
//   y [n,C,H,W], or [n,F] of plain features, loaded in each placement that a layer needs
//
// Backward   none: the gradient of images is never computed, and there are no parameters.
// Cost       a copy from the host; where images are bytes, also the op Normalise (program/op.h).
// Strategies none of its own: plans do not name it.
// Errors     InvalidArgument where it has inputs, another rank or an extent that is not positive.
// Numerics   exact; bytes are scaled and rounded once, to the type of the activations.
#ifndef COLONNADE_LAYERS_INPUT_H_
#define COLONNADE_LAYERS_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Input {
  program::Shape sample_shape;  // {C, H, W} or {F}
  bool operator==(const Input&) const = default;
};

const char* TypeName(const Input&);
std::vector<Field> Fields(Input& input);
absl::StatusOr<program::Shape> OutputSampleShape(const Input& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Input& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Input& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Input& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_INPUT_H_
