#include "layers/concat.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {
namespace {

// The box of the concatenation that an input of this shape fills whose first channel is the given one.
program::Region PartFrom(int64_t channel, const program::Shape& input) {
  program::Region region = program::Region::Whole(input);
  region.offset[1] = channel;
  return region;
}

std::vector<int64_t> ChannelsOf(const std::vector<program::Shape>& inputs) {
  std::vector<int64_t> channels;
  for (const program::Shape& x : inputs) channels.push_back(x[1]);
  return channels;
}

absl::StatusOr<Sharding> ConcatBySections(const LayerShapes& local, int64_t axis_size) {
  const std::vector<int64_t> channels = ChannelsOf(local.inputs);
  for (int64_t of_input : channels) {
    RETURN_IF_ERROR(CheckDivides(Strategy::kGroup, axis_size, "channels of each input", of_input));
  }
  Sharding sharding = ReplicatedSharding(local);
  sharding.inputs.assign(local.inputs.size(), Placement::Split(1));
  sharding.input_gradients = sharding.inputs;
  sharding.output = sharding.output_gradient = Placement::SplitSections(channels);
  return sharding;
}

}  // namespace

const char* TypeName(const Concat&) { return "Concat"; }

std::vector<Field> Fields(Concat&) { return {}; }

absl::StatusOr<program::Shape> OutputSampleShape(const Concat&, absl::Span<const program::Shape> inputs) {
  RETURN_IF_ERROR(CheckSeveral(inputs));
  program::Shape y = inputs[0];
  for (size_t k = 1; k < inputs.size(); ++k) {
    program::Shape expected = inputs[0], found = inputs[k];
    if (found.size() == expected.size()) expected[0] = found[0];
    if (found != expected) {
      return absl::InvalidArgumentError(absl::StrFormat("expected inputs that differ in channels alone, found %s and %s",
                                                        program::ToString(inputs[0]), program::ToString(found)));
    }
    y[0] += found[0];
  }
  return y;
}

std::vector<ParameterSpec> Parameters(const Concat&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const Concat&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  if (strategy == Strategy::kReplicate) return ReplicatedSharding(local);
  if (strategy == Strategy::kBatch) return BatchSharding(local, axis_size);
  if (strategy == Strategy::kGroup) return ConcatBySections(local, axis_size);
  return NotLegal("Concat", strategy, "expected replicate, batch or group");
}

LayerStages Stages(const Concat&, const LayerShapes& whole, const StageOptions&) {
  const int count = static_cast<int>(whole.inputs.size());
  Stage forward{.pass = program::Pass::kForward, .writes = {Y()}},
      backward{.pass = program::Pass::kBackward, .reads = {D(Y())}, .reads_parts = true};
  for (int k = 0; k < count; ++k) {
    forward.reads.push_back(X(k));
    backward.writes.push_back(D(X(k)));
  }
  forward.emit = [count](const StageShard& s) {
    std::vector<EmittedOp> copies;
    int64_t channel = 0;
    for (int k = 0; k < count; ++k) {
      const Operand& x = s[X(k)];
      copies.push_back(
          {.op = program::Copy{}, .uses = {Read(x), {s[Y()].buffer, PartFrom(channel, x.shape), program::Access::kWrite}}});
      channel += x.shape[1];
    }
    return copies;
  };
  backward.emit = [channels = ChannelsOf(whole.inputs), all = whole.output[1]](const StageShard& s) {
    std::vector<EmittedOp> copies;
    const int64_t parts = all / s[D(Y())].shape[1];  // into which each input's channels are cut
    int64_t channel = 0;
    for (int k = 0; k < static_cast<int>(channels.size()); channel += channels[k++] / parts) {
      if (!s.has(D(X(k)))) continue;
      const Operand& dx = s[D(X(k))];
      copies.push_back({.op = program::Copy{},
                        .uses = {{s[D(Y())].buffer, PartFrom(channel, dx.shape), program::Access::kRead}, Write(dx)}});
    }
    return copies;
  };
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
