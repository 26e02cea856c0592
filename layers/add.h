// A sum:  y = x_0 + x_1 + …
//
//   x_0, x_1, …, y [n,…], of equal shapes
//
// Backward: dx_k = dy for each k, the same tensor: nothing is computed.
// Cost       one flop an element for each input but the first; in the kernel of the
//            normalisation before it, where there is one.
// Strategies batch, and group over the channels: without communication.
// Errors     InvalidArgument where there are fewer than two inputs, or shapes differ.
// Numerics   added in the order of the inputs, in f32 or, with the reference kernels, f64; rounded once.
// Source     He et al. 2015, arXiv:1512.03385, section 3.2: the end of a residual block.
#ifndef COLONNADE_LAYERS_ADD_H_
#define COLONNADE_LAYERS_ADD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Add {
  bool operator==(const Add&) const = default;
};

const char* TypeName(const Add&);
std::vector<Field> Fields(Add&);
absl::StatusOr<program::Shape> OutputSampleShape(const Add& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Add& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Add& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Add& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_ADD_H_
