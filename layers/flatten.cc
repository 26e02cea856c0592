#include "layers/flatten.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const Flatten&) { return "Flatten"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Flatten&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1) return program::Shape{program::ElementCount(inputs[0])};
  return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
}

std::vector<ParameterSpec> Parameters(const Flatten&, absl::Span<const program::Shape>) { return {}; }

// A shard of the channels is, flattened, a shard of the features.
absl::StatusOr<Sharding> Shard(const Flatten&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const Flatten&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const Flatten&, const ForwardShard& shard) {
  return {{.op = program::Copy{},
           .uses = {Read(shard.inputs[0]), Write(shard.output)},
           .work = MoveWork({shard.inputs[0]}, {shard.output})}};
}

std::vector<EmittedOp> EmitBackward(const Flatten&, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  return {{.op = program::Copy{},
           .uses = {Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({*shard.d_output}, {*shard.d_inputs[0]})}};
}

}  // namespace colonnade::layers
