#include "layers/softmax_cross_entropy.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {

const char* TypeName(const SoftmaxCrossEntropy&) { return "SoftmaxCrossEntropy"; }

std::vector<Field> Fields(SoftmaxCrossEntropy& loss) {
  return {{"weight", &loss.weight}, {"label_smoothing", &loss.label_smoothing}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const SoftmaxCrossEntropy& loss, absl::Span<const program::Shape> inputs) {
  if (!(loss.weight > 0 && program::FitsF32(loss.weight))) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a weight above 0 that f32 holds, found %g", loss.weight));
  }
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing < 1)) {
    return absl::InvalidArgumentError(absl::StrFormat("expected label smoothing in [0, 1), found %g", loss.label_smoothing));
  }
  if (inputs.size() == 1 && inputs[0].size() == 1) return program::Shape{};
  return absl::InvalidArgumentError(
      absl::StrFormat("expected one flat input of logits [classes], found %s", Listed(inputs)));
}

std::vector<ParameterSpec> Parameters(const SoftmaxCrossEntropy&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const SoftmaxCrossEntropy&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  if (strategy == Strategy::kReplicate) return ReplicatedSharding(local);
  if (strategy != Strategy::kBatch) {
    return NotLegal("SoftmaxCrossEntropy", strategy, "it needs all logits of a sample; expected replicate or batch");
  }
  absl::StatusOr<Sharding> sharding = BatchSharding(local, axis_size);
  if (!sharding.ok()) return sharding;
  sharding->output = Placement::Partial();
  sharding->output_gradient = Placement::Replicated();  // metrics have none
  sharding->inputs[2] = sharding->input_gradients[2] = Placement::Replicated();
  return sharding;
}

LayerStages Stages(const SoftmaxCrossEntropy& loss, const LayerShapes& whole, const StageOptions& options) {
  const SoftmaxCrossEntropy terms = options.train ? loss : SoftmaxCrossEntropy{};
  const Slot logits = X(0), labels = X(1), label_count = X(2), probabilities = Inner(), metrics = Y();
  Stage forward{.pass = program::Pass::kForward, .reads = {logits, labels}, .writes = {metrics, probabilities}};
  forward.emit = [=](const StageShard& s) -> std::vector<EmittedOp> {
    return {{.op = program::SoftmaxCrossEntropyForward{terms.weight, terms.label_smoothing},
             .uses = {Read(s[logits]), Read(s[labels]), Write(s[probabilities]), Write(s[metrics])},
             .flops = 5 * program::ElementCount(s[logits].shape)}};
  };
  Stage backward{.pass = program::Pass::kBackward, .reads = {labels, label_count, probabilities}, .writes = {D(logits)}};
  backward.emit = [=](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &p = s[probabilities], &dx = s[D(logits)];
    return {{.op = program::SoftmaxCrossEntropyBackward{terms.weight, terms.label_smoothing},
             .uses = {Read(s[label_count]), Read(p), Read(s[labels]), Write(dx)},
             .flops = 2 * program::ElementCount(p.shape)}};
  };
  return {.inner = {{.name = "probabilities", .shape = whole.inputs[0], .in_master_type = true, .required = true}},
          .stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
