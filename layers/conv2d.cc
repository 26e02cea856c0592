#include "layers/conv2d.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"
#include "layers/product.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

program::Window WindowOf(const Conv2d& layer) {
  return {.size_h = layer.kernel,
          .size_w = layer.kernel_w != 0 ? layer.kernel_w : layer.kernel,
          .stride_h = layer.stride,
          .stride_w = layer.stride,
          .pad_top = layer.pad,
          .pad_left = layer.pad,
          .pad_bottom = layer.pad,
          .pad_right = layer.pad};
}

// Groups of what one device holds: its input channels over those that one filter reads.
int64_t LocalGroups(const program::Shape& x, const program::Shape& w) { return x[1] / w[1]; }

absl::StatusOr<Sharding> ConvByGroups(const LayerShapes& local, int64_t axis_size, int64_t groups) {
  RETURN_IF_ERROR(CheckGroupsFit("Conv2d", groups, axis_size));
  RETURN_IF_ERROR(CheckDivides(Strategy::kGroup, axis_size, "output channels", local.output[1]));
  Sharding sharding = ReplicatedSharding(local);
  sharding.parameters.assign(local.parameters.size(), Placement::Split(0));
  sharding.parameter_gradients = sharding.parameters;
  sharding.output = sharding.output_gradient = Placement::Split(1);
  SetInnerPlacements(local, Placement::Split(1), sharding);
  if (groups % axis_size == 0) {
    sharding.inputs = sharding.input_gradients = {Placement::Split(1)};
  } else {
    sharding.inputs = {Placement::Replicated(groups)};
    sharding.input_gradients = {Placement::Partial(groups)};
  }
  return sharding;
}

}  // namespace

const char* TypeName(const Conv2d&) { return "Conv2d"; }

std::vector<Field> Fields(Conv2d& conv) {
  return {{"out_channels", &conv.out_channels, 1},
          {"kernel", &conv.kernel, 1},
          {"kernel_w", &conv.kernel_w},
          {"stride", &conv.stride, 1},
          {"pad", &conv.pad},
          {"groups", &conv.groups, 1},
          {"bias", &conv.bias},
          {"weight_init", &conv.weight_init},
          {"bias_init", &conv.bias_init}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const Conv2d& layer, absl::Span<const program::Shape> inputs) {
  ASSIGN_OR_RETURN(program::Shape y, SlideOver(inputs, WindowOf(layer)));
  const int64_t channels = inputs[0][0];
  if (layer.out_channels < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected at least 1 output channel, found %d; set out_channels", layer.out_channels));
  }
  if (layer.groups < 1 || channels % layer.groups != 0 || layer.out_channels % layer.groups != 0) {
    return absl::InvalidArgumentError(absl::StrFormat("expected groups that divide %s and %s, found %d groups",
                                                      base::Counted(channels, "input channel"),
                                                      base::Counted(layer.out_channels, "output channel"), layer.groups));
  }
  RETURN_IF_ERROR(CheckBias(layer.bias, layer.bias_init));
  y[0] = layer.out_channels;
  return y;
}

std::vector<ParameterSpec> Parameters(const Conv2d& layer, absl::Span<const program::Shape> inputs) {
  const int64_t channels = inputs[0][0];
  const program::Window window = WindowOf(layer);
  const program::Shape w = {layer.out_channels, channels / layer.groups, window.size_h, window.size_w};
  const double fan_in = static_cast<double>(w[1]) * static_cast<double>(w[2] * w[3]);
  const program::Initializer he{program::Initializer::Kind::kGaussian, std::sqrt(2.0 / fan_in)};
  std::vector<ParameterSpec> parameters = {{"weight", w, layer.weight_init.value_or(he)}};
  if (layer.bias) parameters.push_back({"bias", {layer.out_channels}, layer.bias_init});
  return parameters;
}

absl::StatusOr<Sharding> Shard(const Conv2d&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  const int64_t groups = LocalGroups(local.inputs[0], local.parameters[0]);
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kColumn:
      if (groups == 1) return ProductByColumns(local, axis_size, "output channels");
      return NotLegal("Conv2d", strategy, absl::StrFormat("it has %d groups; expected strategy group", groups));
    case Strategy::kGroup:
      if (groups > 1) return ConvByGroups(local, axis_size, groups);
      return NotLegal("Conv2d", strategy, "it has one group; expected strategy column");
    case Strategy::kRow:
      if (groups == 1) return ProductByRows(local, axis_size, "input channels");
      return NotLegal("Conv2d", strategy, absl::StrFormat("it has %d groups; expected strategy group", groups));
  }
  return NotLegal("Conv2d", strategy, "unknown strategy");
}

LayerStages Stages(const Conv2d& layer, const LayerShapes& whole, const StageOptions& options) {
  const program::Window window = WindowOf(layer);
  return ProductStages(
      {.has_bias = layer.bias,
       .forward = [window](const program::Shape& x, const program::Shape& w, bool bias, bool relu) -> program::Op {
         return program::ConvForward{.window = window, .groups = LocalGroups(x, w), .bias = bias, .relu = relu};
       },
       .backward_weights = [window](const program::Shape& x, const program::Shape& w, bool bias) -> program::Op {
         return program::ConvBackwardWeights{.window = window, .groups = LocalGroups(x, w), .bias = bias};
       },
       .backward_data = [window](const program::Shape& x, const program::Shape& w) -> program::Op {
         return program::ConvBackwardData{.window = window, .groups = LocalGroups(x, w)};
       }},
      whole, options);
}

}  // namespace colonnade::layers
