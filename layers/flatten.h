// Rows of an image behind one another:  x [n,C,H,W] → y [n, C·H·W], row-major.
//
// Backward: dy in the shape of x.
// Cost       no flop; a copy forward and backward, since backends lay images out in their own ways.
// Strategies batch, and group over the channels: a part of the channels is, flattened, a part of the features.
// Errors     InvalidArgument where there is not one input.
// Numerics   exact.
#ifndef COLONNADE_LAYERS_FLATTEN_H_
#define COLONNADE_LAYERS_FLATTEN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Flatten {
  bool operator==(const Flatten&) const = default;
};

const char* TypeName(const Flatten&);
std::vector<Field> Fields(Flatten&);
absl::StatusOr<program::Shape> OutputSampleShape(const Flatten& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Flatten& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Flatten& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Flatten& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_FLATTEN_H_
