#include "layers/relu.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const Relu&) { return "Relu"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Relu&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1) return inputs[0];
  return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
}

std::vector<ParameterSpec> Parameters(const Relu&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const Relu&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const Relu&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const Relu&, const ForwardShard& shard) {
  return {{.op = program::ReluForward{},
           .uses = {Read(shard.inputs[0]), Write(shard.output)},
           .work = MoveWork({shard.inputs[0]}, {shard.output}, program::ElementCount(shard.output.shape))}};
}

std::vector<EmittedOp> EmitBackward(const Relu&, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  return {
      {.op = program::ReluBackward{},
       .uses = {Read(shard.output), Read(*shard.d_output), Write(*shard.d_inputs[0])},
       .work = MoveWork({shard.output, *shard.d_output}, {*shard.d_inputs[0]}, program::ElementCount(shard.output.shape))}};
}

}  // namespace colonnade::layers
