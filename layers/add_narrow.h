// The sum of two tensors of which the second has fewer channels: zeros stand for those that it lacks.
//
//   y[n,c,…] = x_0[n,c,…] + x_1[n,c,…] for c < C_1, else x_0[n,c,…]      x_0, y [n,C_0,…]   x_1 [n,C_1,…], C_1 ≤ C_0
//
// Backward: dx_0 = dy, dx_1[n,c,…] = dy[n,c,…] for c < C_1.
// Cost       one flop for each element of x_1, and a copy of the channels that it lacks; a copy backward.
// Strategies replicate, batch: without communication. None that cuts the channels.
// Errors     InvalidArgument unless there are two inputs that are alike but for their channels, of which the second has at
//            most as many as the first.
// Numerics   in f32 or, with the reference kernels, f64; rounded once.
// Source     He et al. 2015, arXiv:1512.03385, section 3.3: the shortcut without parameters, "option A".
#ifndef COLONNADE_LAYERS_ADD_NARROW_H_
#define COLONNADE_LAYERS_ADD_NARROW_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct AddNarrow {
  bool operator==(const AddNarrow&) const = default;
};

const char* TypeName(const AddNarrow&);
std::vector<Field> Fields(AddNarrow&);
absl::StatusOr<program::Shape> OutputSampleShape(const AddNarrow& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const AddNarrow& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const AddNarrow& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const AddNarrow& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_ADD_NARROW_H_
