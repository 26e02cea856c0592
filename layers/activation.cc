#include "layers/activation.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {

const char* TypeName(const ActivationLayer& layer) {
  return program::WithFormula(layer.activation, [](auto formula) { return formula.kLayer; });
}

std::vector<Field> Fields(ActivationLayer&) { return {}; }

absl::StatusOr<program::Shape> OutputSampleShape(const ActivationLayer&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1) return inputs[0];
  return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
}

std::vector<ParameterSpec> Parameters(const ActivationLayer&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const ActivationLayer&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

LayerStages Stages(const ActivationLayer& layer, const LayerShapes&, const StageOptions&) {
  const program::Activation activation = layer.activation;
  const bool keeps_input = program::WithFormula(activation, [](auto formula) { return formula.kKeepsInput; });
  const Slot kept = keeps_input ? X() : Y();
  Stage forward{.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y()}};
  forward.emit = [activation](const StageShard& s) -> std::vector<EmittedOp> {
    return {{.op = program::ActivationForward{activation},
             .uses = {Read(s[X()]), Write(s[Y()])},
             .flops = program::ElementCount(s[Y()].shape)}};
  };
  Stage backward{.pass = program::Pass::kBackward, .reads = {kept, D(Y())}, .writes = {D(X())}};
  backward.emit = [activation, kept](const StageShard& s) -> std::vector<EmittedOp> {
    return {{.op = program::ActivationBackward{activation},
             .uses = {Read(s[kept]), Read(s[D(Y())]), Write(s[D(X())])},
             .flops = program::ElementCount(s[D(Y())].shape)}};
  };
  forward.by_sample = backward.by_sample = true;
  if (activation == program::Activation::kRelu) {
    forward.meaning = activation;
    backward.meaning = Masking{};
  }
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
