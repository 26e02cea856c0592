// The functions that each layer provides, and the variant of all layers.
//
// A layer type is an attribute struct with, in a file pair of its own (conv2d.h, conv2d.cc …), overloads of the six
// functions that the concept LayerType lists. They describe ONE device: no layer knows a device, rank, group or plan.
//
// Shapes: sample shapes leave the batch dimension out ({C, H, W}, {F}); all other shapes hold it as dimension 0.
#ifndef COLONNADE_LAYERS_LAYER_H_
#define COLONNADE_LAYERS_LAYER_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/add_narrow.h"
#include "layers/avg_pool.h"
#include "layers/batch_norm.h"
#include "layers/concat.h"
#include "layers/conv2d.h"
#include "layers/dropout.h"
#include "layers/fields.h"
#include "layers/flatten.h"
#include "layers/fully_connected.h"
#include "layers/input.h"
#include "layers/layer_norm.h"
#include "layers/lrn.h"
#include "layers/max_pool.h"
#include "layers/sharding.h"
#include "layers/softmax_cross_entropy.h"
#include "layers/stage.h"

namespace colonnade::layers {

using Layer = std::variant<Input, Conv2d, FullyConnected, Concat, Relu, Gelu, MaxPool, AvgPool, Lrn, BatchNorm, LayerNorm,
                           Dropout, Flatten, Add, AddNarrow, SoftmaxCrossEntropy>;

// What a type needs to be a layer.
template <class L>
concept LayerType = std::equality_comparable<L> &&
    requires(L& attributes, const L& layer, absl::Span<const program::Shape> inputs, const LayerShapes& local,
             const LayerShapes& whole, Strategy strategy, int64_t axis_size, const StageOptions& options) {
  // Returns the name of the type: "Conv2d".
  { TypeName(layer) } -> std::same_as<const char*>;
  // Returns the attributes, in the order of the struct, but what follows from the layer's name. They point into the layer.
  { Fields(attributes) } -> std::same_as<std::vector<Field>>;
  // Returns the sample shape of the output. InvalidArgument says what was expected and what was found.
  { OutputSampleShape(layer, inputs) } -> std::same_as<absl::StatusOr<program::Shape>>;
  // Returns the global shapes and initialisers, for inputs of these sample shapes: of the weight, then of the bias.
  { Parameters(layer, inputs) } -> std::same_as<std::vector<ParameterSpec>>;
  // Spreads the layer over one more axis of axis_size > 1 positions; `local` has the extents that the axes before have left.
  // Returns InvalidArgument with expected, found and the nearest sizes that work, where this is not legal.
  { Shard(layer, local, strategy, axis_size) } -> std::same_as<absl::StatusOr<Sharding>>;
  // Returns what it computes, from its shapes before any axis cuts them.
  { Stages(layer, whole, options) } -> std::same_as<LayerStages>;
};

template <class Variant>
inline constexpr bool kAllAreLayers = false;
template <class... L>
inline constexpr bool kAllAreLayers<std::variant<L...>> = (LayerType<L> && ...);
static_assert(kAllAreLayers<Layer>, "each type of the variant needs the functions of LayerType");

// Returns a layer of each type, as it is where nothing is said about it.
const std::vector<Layer>& DefaultLayers();

// The functions on Layer visit the variant.
const char* TypeName(const Layer& layer);
std::vector<Field> Fields(Layer& layer);
absl::StatusOr<program::Shape> OutputSampleShape(const Layer& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Layer& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Layer& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Layer& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_LAYER_H_
