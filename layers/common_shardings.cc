#include "layers/common_shardings.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace colonnade::layers {

Sharding ReplicatedSharding(const LayerShapes& local) {
  Sharding sharding;
  sharding.inputs.assign(local.inputs.size(), Placement::Replicated());
  sharding.input_gradients = sharding.inputs;
  sharding.parameters.assign(local.parameters.size(), Placement::Replicated());
  sharding.parameter_gradients = sharding.parameters;
  sharding.state.assign(local.state.size(), Placement::Replicated());
  SetInnerPlacements(local, Placement::Replicated(), sharding);
  return sharding;
}

absl::Status CheckGroupsFit(absl::string_view layer, int64_t groups, int64_t axis_size) {
  if (groups % axis_size == 0 || axis_size % groups == 0) return absl::OkStatus();
  return NotLegal(
      layer, Strategy::kGroup,
      absl::StrFormat("expected a number of positions that divides its %d groups or is a multiple of them, found %d", groups,
                      axis_size));
}

void SetInnerPlacements(const LayerShapes& local, const Placement& placement, Sharding& sharding) {
  sharding.inner.assign(local.inner.size(), {placement, placement});
}

absl::StatusOr<Sharding> BatchSharding(const LayerShapes& local, int64_t axis_size) {
  RETURN_IF_ERROR(CheckDivides(Strategy::kBatch, axis_size, "batch", local.inputs[0][0]));
  Sharding sharding = ReplicatedSharding(local);
  sharding.inputs.assign(local.inputs.size(), Placement::Split(0));
  sharding.input_gradients = sharding.inputs;
  sharding.output = sharding.output_gradient = Placement::Split(0);
  SetInnerPlacements(local, Placement::Split(0), sharding);
  sharding.parameter_gradients.assign(local.parameters.size(), Placement::Partial());
  return sharding;
}

namespace {

// Along the channels; those of a concatenation section by section where the axis divides each.
Placement SplitChannels(const LayerShapes& local, int64_t axis_size) {
  for (int64_t section : local.sections) {
    if (section % axis_size != 0) return Placement::Split(1);
  }
  return Placement::SplitSections(local.sections);
}

}  // namespace

absl::StatusOr<Sharding> ChannelwiseSharding(const LayerShapes& local, int64_t axis_size) {
  RETURN_IF_ERROR(CheckDivides(Strategy::kGroup, axis_size, "channels", local.inputs[0][1]));
  Sharding sharding = ReplicatedSharding(local);
  const Placement split = SplitChannels(local, axis_size);
  sharding.inputs.assign(local.inputs.size(), split);
  sharding.input_gradients = sharding.inputs;
  sharding.output = sharding.output_gradient = split;
  SetInnerPlacements(local, split, sharding);
  return sharding;
}

absl::StatusOr<Sharding> ShardChannelwise(const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kGroup:
      return ChannelwiseSharding(local, axis_size);
    case Strategy::kColumn:
    case Strategy::kRow:
      break;
  }
  return NotLegal("a layer that treats each channel alone", strategy, "expected replicate, batch or group");
}

absl::Status CheckDivides(Strategy strategy, int64_t axis_size, absl::string_view what, int64_t size) {
  if (size % axis_size == 0) return absl::OkStatus();
  const int64_t below = size / axis_size * axis_size;
  std::string divisors;
  for (int64_t d = 1; d <= size && d <= 64; ++d) {
    if (size % d == 0) absl::StrAppend(&divisors, divisors.empty() ? "" : ", ", d);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "strategy %s over %d positions needs %s divisible by %d, found %d; nearest that work: %s%d %s, or %s position%s",
      Name(strategy), axis_size, what, axis_size, size, below > 0 ? absl::StrCat(below, " or ") : "", below + axis_size,
      what, divisors, size == 1 ? "" : "s"));
}

absl::Status NotLegal(absl::string_view layer_type, Strategy strategy, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s cannot be spread by strategy %s: %s", layer_type, Name(strategy), reason));
}

absl::Status CheckSeveral(absl::Span<const program::Shape> inputs) {
  if (inputs.size() > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected at least two inputs, found %s%s", Listed(inputs),
                      inputs.empty() ? "" : "; leave the layer out and read its input instead"));
}

std::string Listed(absl::Span<const program::Shape> inputs) {
  if (inputs.empty()) return "none";
  return absl::StrJoin(inputs, " and ",
                       [](std::string* out, const program::Shape& shape) { *out += program::ToString(shape); });
}

}  // namespace colonnade::layers
