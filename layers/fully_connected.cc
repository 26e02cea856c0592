#include "layers/fully_connected.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "layers/legality.h"
#include "program/status_macros.h"

namespace colonnade::layers {
namespace {

int64_t Flops(const program::Shape& w, const program::Shape& y) { return 2 * program::ElementCount(w) * y[0]; }

}  // namespace

const char* TypeName(const FullyConnected&) { return "FullyConnected"; }

absl::StatusOr<program::Shape> OutputSampleShape(const FullyConnected& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected one flat input of shape [I], found %s; put a Flatten layer before it",
                        inputs.empty() ? "none" : program::ToString(inputs[0])));
  }
  if (layer.out_features < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected at least 1 output feature, found %d; set out_features", layer.out_features));
  }
  return program::Shape{layer.out_features};
}

std::vector<ParameterSpec> Parameters(const FullyConnected& layer, absl::Span<const program::Shape> inputs) {
  const int64_t features = inputs[0].back();
  const program::Initializer he{program::Initializer::Kind::kGaussian, std::sqrt(2.0 / static_cast<double>(features))};
  std::vector<ParameterSpec> parameters = {{"weight", {layer.out_features, features}, layer.weight_init.value_or(he)}};
  if (layer.bias) parameters.push_back({"bias", {layer.out_features}, layer.bias_init});
  return parameters;
}

absl::StatusOr<Sharding> Shard(const FullyConnected& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  Sharding sharding = ReplicatedSharding(local);
  switch (strategy) {
    case Strategy::kReplicate:
      return sharding;
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kColumn:
      RETURN_IF_ERROR(CheckDivides(strategy, axis_size, "output features", local.output[1]));
      sharding.parameters.assign(local.parameters.size(), Placement::Split(0));
      sharding.parameter_gradients = sharding.parameters;
      sharding.output = sharding.output_gradient = Placement::Split(1);
      sharding.input_gradients = {Placement::Partial()};
      return sharding;
    case Strategy::kRow:
      if (layer.bias) return NotLegal("FullyConnected", strategy, "its bias must be a step of its own");
      RETURN_IF_ERROR(CheckDivides(strategy, axis_size, "input features", local.inputs[0][1]));
      sharding.inputs = sharding.input_gradients = {Placement::Split(1)};
      sharding.parameters = sharding.parameter_gradients = {Placement::Split(1)};
      sharding.output = Placement::Partial();
      return sharding;
    case Strategy::kGroup:
      break;
  }
  return NotLegal("FullyConnected", strategy, "it has no groups; expected replicate, batch, column or row");
}

std::vector<SavedSpec> Saved(const FullyConnected&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const FullyConnected& layer, const ForwardShard& shard) {
  const Operand &x = shard.inputs[0], &w = shard.parameters[0];
  EmittedOp op{.op = program::FullyConnectedForward{.bias = layer.bias},
               .uses = {Read(x), Read(w)},
               .work = MoveWork({x, w}, {shard.output}, Flops(w.shape, shard.output.shape))};
  if (layer.bias) op.uses.push_back(Read(shard.parameters[1]));
  op.uses.push_back(Write(shard.output));
  return {std::move(op)};
}

std::vector<EmittedOp> EmitBackward(const FullyConnected& layer, const BackwardShard& shard) {
  const Operand &x = shard.inputs[0], &w = shard.parameters[0], &dy = *shard.d_output, &dw = shard.d_parameters[0];
  std::vector<EmittedOp> ops;
  ops.push_back({.op = program::FullyConnectedBackwardWeights{.bias = layer.bias},
                 .uses = {Read(x), Read(dy), Write(dw)},
                 .work = MoveWork({x, dy}, {dw}, Flops(w.shape, dy.shape))});
  if (layer.bias) ops[0].uses.push_back(Write(shard.d_parameters[1]));
  if (shard.d_inputs[0]) {
    ops.push_back({.op = program::FullyConnectedBackwardData{},
                   .uses = {Read(dy), Read(w), Write(*shard.d_inputs[0])},
                   .work = MoveWork({dy, w}, {*shard.d_inputs[0]}, Flops(w.shape, dy.shape))});
  }
  return ops;
}

}  // namespace colonnade::layers
