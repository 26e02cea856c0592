#include "layers/dropout.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {
namespace {

// The mask of a device's part of a tensor is that part of the whole tensor's mask, of the whole batch.
program::Op DropoutOp(const Dropout& layer, const StageShard& shard, const Operand& part) {
  program::Dropout op{layer.rate, layer.stream, part.global_shape, part.offset};
  if (shard.batch > 0) {
    op.global_shape[0] = shard.batch;
    op.offset[0] += shard.first_sample;
  }
  return op;
}

}  // namespace

const char* TypeName(const Dropout&) { return "Dropout"; }

std::vector<Field> Fields(Dropout& dropout) { return {{"rate", &dropout.rate}}; }

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

LayerStages Stages(const Dropout& layer, const LayerShapes&, const StageOptions& options) {
  Stage forward{.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y()}};
  if (options.train) {
    forward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
      return {{.op = DropoutOp(layer, s, s[Y()]), .uses = {Read(s.scalars), Read(s[X()]), Write(s[Y()])}}};
    };
  }
  Stage backward{.pass = program::Pass::kBackward, .reads = {D(Y())}, .writes = {D(X())}};
  backward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
    return {{.op = DropoutOp(layer, s, s[D(X())]), .uses = {Read(s.scalars), Read(s[D(Y())]), Write(s[D(X())])}}};
  };
  forward.by_sample = backward.by_sample = true;
  forward.draws = options.train;
  backward.draws = true;
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
