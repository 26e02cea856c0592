#include "layers/lrn.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {
namespace {

// Blocks of channels in a shard that holds `channels` of `global_channels`.
int64_t LocalGroups(const Lrn& layer, int64_t channels, int64_t global_channels) {
  return layer.groups * channels / global_channels;
}

int64_t Flops(const Lrn& layer, const program::Shape& y) { return program::ElementCount(y) * (2 * layer.size + 10); }

absl::StatusOr<Sharding> GroupSharding(const LayerShapes& local, int64_t axis_size, int64_t groups) {
  if (groups <= 1) return NotLegal("Lrn", Strategy::kGroup, "it has one block of channels; expected replicate or batch");
  if (groups % axis_size == 0) return ChannelwiseSharding(local, axis_size);
  if (axis_size % groups != 0) {
    return NotLegal(
        "Lrn", Strategy::kGroup,
        absl::StrFormat("expected a number of positions that divides its %d groups or is a multiple of them, found %d",
                        groups, axis_size));
  }
  // Windows need the whole group: the positions of a run gather it and compute it alike.
  Sharding sharding = ReplicatedSharding(local);
  sharding.inputs = sharding.input_gradients = {Placement::Replicated(groups)};
  sharding.output = sharding.output_gradient = Placement::Replicated(groups);
  return sharding;
}

}  // namespace

const char* TypeName(const Lrn&) { return "Lrn"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Lrn& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input of shape [C,H,W], found %s",
                                                      inputs.empty() ? "none" : program::ToString(inputs[0])));
  }
  if (layer.groups < 1 || inputs[0][0] % layer.groups != 0 || layer.size < 1 || layer.size % 2 == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected groups that divide %d channels and an odd size, found groups %d, size %d", inputs[0][0],
                        layer.groups, layer.size));
  }
  return inputs[0];
}

std::vector<ParameterSpec> Parameters(const Lrn&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const Lrn& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kGroup:
      return GroupSharding(local, axis_size, LocalGroups(layer, local.inputs[0][1], local.global_inputs[0][1]));
    case Strategy::kColumn:
    case Strategy::kRow:
      break;
  }
  return NotLegal("Lrn", strategy, "expected replicate, batch or group");
}

std::vector<SavedSpec> Saved(const Lrn&, const LayerShapes& local) { return {{"scale", std::nullopt, local.output}}; }

std::vector<EmittedOp> EmitForward(const Lrn& layer, const ForwardShard& shard) {
  const int64_t groups = LocalGroups(layer, shard.output.shape[1], shard.global_output_shape[1]);
  EmittedOp op{.op = program::LrnForward{layer.size, groups, layer.alpha, layer.beta, layer.k},
               .uses = {Read(shard.inputs[0]), Write(shard.output)},
               .work = MoveWork({shard.inputs[0]}, {shard.output}, Flops(layer, shard.output.shape))};
  if (!shard.saved.empty()) {
    op.uses.push_back(Write(shard.saved[0]));
    op.work.bytes_written += MoveWork({}, {shard.saved[0]}).bytes_written;
  }
  return {std::move(op)};
}

std::vector<EmittedOp> EmitBackward(const Lrn& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  const int64_t groups = LocalGroups(layer, shard.d_output->shape[1], shard.global_output_shape[1]);
  return {{.op = program::LrnBackward{layer.size, groups, layer.alpha, layer.beta, layer.k},
           .uses = {Read(shard.inputs[0]), Read(shard.saved[0]), Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({shard.inputs[0], shard.saved[0], *shard.d_output}, {*shard.d_inputs[0]},
                            2 * Flops(layer, shard.d_output->shape))}};
}

}  // namespace colonnade::layers
