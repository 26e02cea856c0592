#include "layers/activation.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const ActivationLayer& layer) {
  return program::WithFormula(layer.activation, [](auto formula) { return formula.kLayer; });
}

absl::StatusOr<program::Shape> OutputSampleShape(const ActivationLayer&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1) return inputs[0];
  return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
}

std::vector<ParameterSpec> Parameters(const ActivationLayer&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const ActivationLayer&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const ActivationLayer&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const ActivationLayer& layer, const ForwardShard& shard) {
  return {{.op = program::ActivationForward{layer.activation},
           .uses = {Read(shard.inputs[0]), Write(shard.output)},
           .work = MoveWork({shard.inputs[0]}, {shard.output}, program::ElementCount(shard.output.shape))}};
}

std::vector<EmittedOp> EmitBackward(const ActivationLayer& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  const bool keeps_input = program::WithFormula(layer.activation, [](auto formula) { return formula.kKeepsInput; });
  const Operand& kept = keeps_input ? shard.inputs[0] : shard.output;
  return {{.op = program::ActivationBackward{layer.activation},
           .uses = {Read(kept), Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({kept, *shard.d_output}, {*shard.d_inputs[0]}, program::ElementCount(shard.output.shape))}};
}

}  // namespace colonnade::layers
