#include "layers/dropout.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {
namespace {

program::Op DropoutOp(const Dropout& layer, const program::Shape& global_shape, const program::Region& region) {
  return program::Dropout{layer.rate, layer.stream, global_shape, region.offset};
}

}  // namespace

const char* TypeName(const Dropout&) { return "Dropout"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Dropout& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1) return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
  if (!(layer.rate >= 0 && layer.rate < 1)) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a rate from 0 to below 1, found %g", layer.rate));
  }
  return inputs[0];
}

std::vector<ParameterSpec> Parameters(const Dropout&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const Dropout&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const Dropout&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const Dropout& layer, const ForwardShard& shard) {
  const program::Work work = MoveWork({shard.inputs[0]}, {shard.output});
  if (!shard.train) return {{.op = program::Copy{}, .uses = {Read(shard.inputs[0]), Write(shard.output)}, .work = work}};
  return {{.op = DropoutOp(layer, shard.global_output_shape, shard.output_region),
           .uses = {Read(shard.scalars), Read(shard.inputs[0]), Write(shard.output)},
           .work = work}};
}

std::vector<EmittedOp> EmitBackward(const Dropout& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  return {{.op = DropoutOp(layer, shard.global_output_shape, shard.output_region),
           .uses = {Read(shard.scalars), Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({*shard.d_output}, {*shard.d_inputs[0]})}};
}

}  // namespace colonnade::layers
