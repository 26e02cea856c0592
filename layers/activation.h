// Layers of one function, element by element:  y = f(x)  for each f of program/formulas/activation.h.
//
//   x, y [n,…], of any rank
//
// Backward: dx = f'(x)·dy, from y where f' can be said by y, else from x; nothing is kept beside them.
// Cost       forward and backward count one flop for each element; they stream through memory.
// Strategies batch, and group over the channels: without communication.
// Errors     InvalidArgument where there is not one input.
// Numerics   in f32, or in f64 with the reference kernels; each result is rounded once.
// Source     program/formulas/activation.h, of each function.
#ifndef COLONNADE_LAYERS_ACTIVATION_H_
#define COLONNADE_LAYERS_ACTIVATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"
#include "program/formulas/activation.h"

namespace colonnade::layers {

struct ActivationLayer {
  program::Activation activation;
  bool operator==(const ActivationLayer&) const = default;
};
// The type of one activation's layers.
template <program::Activation kActivation>
struct ActivationLayerOf : ActivationLayer {
  ActivationLayerOf() : ActivationLayer{kActivation} {}
  bool operator==(const ActivationLayerOf&) const = default;
};
using Relu = ActivationLayerOf<program::Activation::kRelu>;
using Gelu = ActivationLayerOf<program::Activation::kGelu>;

const char* TypeName(const ActivationLayer& layer);
std::vector<Field> Fields(ActivationLayer&);
absl::StatusOr<program::Shape> OutputSampleShape(const ActivationLayer& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const ActivationLayer& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const ActivationLayer& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const ActivationLayer& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_ACTIVATION_H_
