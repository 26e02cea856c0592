#include "layers/layer_norm.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"
#include "program/epsilon.h"

namespace colonnade::layers {
namespace {

using program::Pass;
using Ops = std::vector<EmittedOp>;

const Slot kMoments = Inner();

Stage Normalise(const LayerNorm& layer) {
  Stage stage{.pass = Pass::kForward, .reads = {X(), kWeight, kBias}, .writes = {Y(), kMoments}, .reads_masters = true};
  stage.emit = [epsilon = layer.epsilon](const StageShard& s) -> Ops {
    const Operand &x = s[X()], &y = s[Y()];
    return {{.op = program::LayerNormForward{epsilon},
             .uses = {Read(x), Read(s[kWeight]), Read(s[kBias]), Write(y), Write(s[kMoments])},
             .flops = 8 * Elements(x)}};
  };
  return stage;
}

Stage NormaliseBackward() {
  Stage stage{.pass = Pass::kBackward,
              .reads = {X(), D(Y()), kMoments, kWeight},
              .writes = {D(kWeight), D(kBias), D(X())},
              .reads_masters = true};
  stage.emit = [](const StageShard& s) -> Ops {
    const Operand &x = s[X()], &dy = s[D(Y())], &moments = s[kMoments];
    Ops ops = {{.op = program::LayerNormBackwardWeights{},
                .uses = {Read(x), Read(dy), Read(moments), Write(s[D(kWeight)]), Write(s[D(kBias)])},
                .flops = 5 * Elements(x)}};
    if (s.has(D(X()))) {
      const Operand& dx = s[D(X())];
      ops.push_back({.op = program::LayerNormBackwardData{},
                     .uses = {Read(x), Read(dy), Read(moments), Read(s[kWeight]), Write(dx)},
                     .flops = 11 * Elements(x)});
    }
    return ops;
  };
  return stage;
}

}  // namespace

const char* TypeName(const LayerNorm&) { return "LayerNorm"; }

std::vector<Field> Fields(LayerNorm& norm) { return {{"epsilon", &norm.epsilon}}; }

absl::StatusOr<program::Shape> OutputSampleShape(const LayerNorm& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
  }
  if (inputs[0].size() != 1 && inputs[0].size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected an input of shape [F] or [C,H,W], found %s", program::ToString(inputs[0])));
  }
  RETURN_IF_ERROR(program::CheckEpsilon(layer.epsilon));
  return inputs[0];
}

std::vector<ParameterSpec> Parameters(const LayerNorm&, absl::Span<const program::Shape> inputs) {
  const program::Shape channels = {inputs[0][0]};
  return {{"weight", channels, {program::Initializer::Kind::kConstant, 1}}, {"bias", channels, {}}};
}

absl::StatusOr<Sharding> Shard(const LayerNorm&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return BatchSharding(local, axis_size);
    case Strategy::kColumn:
    case Strategy::kGroup:
    case Strategy::kRow:
      break;
  }
  return NotLegal("LayerNorm", strategy, "it normalises over all channels; expected replicate or batch");
}

LayerStages Stages(const LayerNorm& layer, const LayerShapes& whole, const StageOptions&) {
  program::Shape moments = whole.output;
  moments[1] = 3;
  // Required: kernels may keep them from one pass over x to the next, in evaluation too.
  return {.inner = {{.name = "moments", .shape = std::move(moments), .in_master_type = true, .required = true}},
          .stages = {Normalise(layer), NormaliseBackward()}};
}

}  // namespace colonnade::layers
