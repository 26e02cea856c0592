#include "layers/fully_connected.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"
#include "layers/product.h"

namespace colonnade::layers {
const char* TypeName(const FullyConnected&) { return "FullyConnected"; }

std::vector<Field> Fields(FullyConnected& layer) {
  return {{"out_features", &layer.out_features, 1},
          {"bias", &layer.bias},
          {"weight_init", &layer.weight_init},
          {"bias_init", &layer.bias_init}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const FullyConnected& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected one flat input of shape [I], found %s; put a Flatten layer before it", Listed(inputs)));
  }
  if (layer.out_features < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected at least 1 output feature, found %d; set out_features", layer.out_features));
  }
  RETURN_IF_ERROR(CheckBias(layer.bias, layer.bias_init));
  return program::Shape{layer.out_features};
}

std::vector<ParameterSpec> Parameters(const FullyConnected& layer, absl::Span<const program::Shape> inputs) {
  const int64_t features = inputs[0].back();
  const program::Initializer he{program::Initializer::Kind::kGaussian, std::sqrt(2.0 / static_cast<double>(features))};
  std::vector<ParameterSpec> parameters = {{"weight", {layer.out_features, features}, layer.weight_init.value_or(he)}};
  if (layer.bias) parameters.push_back({"bias", {layer.out_features}, layer.bias_init});
  return parameters;
}

absl::StatusOr<Sharding> Shard(const FullyConnected&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kColumn:
      return ProductByColumns(local, axis_size, "output features");
    case Strategy::kRow:
      return ProductByRows(local, axis_size, "input features");
    case Strategy::kGroup:
      break;
  }
  return NotLegal("FullyConnected", strategy, "it has no groups; expected replicate, batch, column or row");
}

LayerStages Stages(const FullyConnected& layer, const LayerShapes& whole, const StageOptions& options) {
  using program::Shape;
  return ProductStages(
      {.has_bias = layer.bias,
       .by_sample = true,
       .forward = [](const Shape&, const Shape&, bool bias, bool relu) -> program::Op {
         return program::FullyConnectedForward{.bias = bias, .relu = relu};
       },
       .backward_weights = [](const Shape&, const Shape&, bool bias) -> program::Op {
         return program::FullyConnectedBackwardWeights{.bias = bias};
       },
       .backward_data = [](const Shape&, const Shape&) -> program::Op { return program::FullyConnectedBackwardData{}; }},
      whole, options);
}

}  // namespace colonnade::layers
