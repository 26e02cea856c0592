#include "layers/lrn.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {
namespace {

// Blocks of channels in a shard that holds `channels` of `global_channels`.
int64_t LocalGroups(const Lrn& layer, int64_t channels, int64_t global_channels) {
  return channels / (global_channels / layer.groups);
}

int64_t GroupsIn(const Lrn& layer, const Operand& part) { return LocalGroups(layer, part.shape[1], part.global_shape[1]); }

// Counts flops for `y`, in so many groups. A window that is wider than two blocks covers what it can from any channel.
int64_t Flops(const Lrn& layer, const program::Shape& y, int64_t groups, double times = 1) {
  const int64_t window = std::min(layer.size, 2 * y[1] / std::max<int64_t>(groups, 1));
  return CountedFlops(times * static_cast<double>(program::ElementCount(y)) * (2.0 * static_cast<double>(window) + 10));
}

absl::StatusOr<Sharding> LrnByGroups(const LayerShapes& local, int64_t axis_size, int64_t groups) {
  if (groups <= 1) return NotLegal("Lrn", Strategy::kGroup, "it has one block of channels; expected replicate or batch");
  RETURN_IF_ERROR(CheckGroupsFit("Lrn", groups, axis_size));
  if (groups % axis_size == 0) return ChannelwiseSharding(local, axis_size);
  // Windows need the whole group: the positions of a subgroup gather it and compute it alike.
  Sharding sharding = ReplicatedSharding(local);
  sharding.inputs = sharding.input_gradients = {Placement::Replicated(groups)};
  sharding.output = sharding.output_gradient = Placement::Replicated(groups);
  return sharding;
}

}  // namespace

const char* TypeName(const Lrn&) { return "Lrn"; }

std::vector<Field> Fields(Lrn& lrn) {
  return {{"size", &lrn.size, 1}, {"groups", &lrn.groups, 1}, {"alpha", &lrn.alpha}, {"beta", &lrn.beta}, {"k", &lrn.k}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const Lrn& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input of shape [C,H,W], found %s", Listed(inputs)));
  }
  if (layer.groups < 1 || inputs[0][0] % layer.groups != 0 || layer.size < 1 || layer.size % 2 == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected groups that divide %s and an odd size, found groups %d, size %d",
                        base::Counted(inputs[0][0], "channel"), layer.groups, layer.size));
  }
  const bool fit = program::FitsF32(layer.alpha) && program::FitsF32(layer.beta) && program::FitsF32(layer.k);
  if (!fit || layer.alpha < 0 || layer.beta < 0 || layer.k <= 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "expected numbers that f32 holds, alpha and beta of at least 0 and k above 0, found alpha %g, beta %g, k %g",
        layer.alpha, layer.beta, layer.k));
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
      return LrnByGroups(local, axis_size, LocalGroups(layer, local.inputs[0][1], local.global_inputs[0][1]));
    case Strategy::kColumn:
    case Strategy::kRow:
      break;
  }
  return NotLegal("Lrn", strategy, "expected replicate, batch or group");
}

LayerStages Stages(const Lrn& layer, const LayerShapes&, const StageOptions&) {
  Stage forward{.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y()}};
  forward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &x = s[X()], &y = s[Y()];
    return {{.op = program::LrnForward{layer.size, GroupsIn(layer, y), layer.alpha, layer.beta, layer.k},
             .uses = {Read(x), Write(y)},
             .flops = Flops(layer, y.shape, GroupsIn(layer, y))}};
  };
  Stage backward{.pass = program::Pass::kBackward, .reads = {X(), D(Y())}, .writes = {D(X())}};
  backward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &x = s[X()], &dy = s[D(Y())], &dx = s[D(X())];
    return {{.op = program::LrnBackward{layer.size, GroupsIn(layer, dy), layer.alpha, layer.beta, layer.k},
             .uses = {Read(x), Read(dy), Write(dx)},
             .flops = Flops(layer, dy.shape, GroupsIn(layer, dy), 3)}};
  };
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
