#include "layers/softmax_cross_entropy.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const SoftmaxCrossEntropy&) { return "SoftmaxCrossEntropy"; }

absl::StatusOr<program::Shape> OutputSampleShape(const SoftmaxCrossEntropy&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1 && inputs[0].size() == 1) return program::Shape{};
  return absl::InvalidArgumentError(absl::StrFormat("expected one flat input of logits [classes], found %s",
                                                    inputs.empty() ? "none" : program::ToString(inputs[0])));
}

std::vector<ParameterSpec> Parameters(const SoftmaxCrossEntropy&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const SoftmaxCrossEntropy&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  if (strategy == Strategy::kReplicate) return ReplicatedSharding(local);
  if (strategy != Strategy::kBatch) {
    return NotLegal("SoftmaxCrossEntropy", strategy, "it needs all logits of a sample; expected replicate or batch");
  }
  absl::StatusOr<Sharding> sharding = BatchSharding(local, axis_size);
  if (sharding.ok()) sharding->output = Placement::Partial();
  return sharding;
}

std::vector<SavedSpec> Saved(const SoftmaxCrossEntropy&, const LayerShapes& local) {
  return {{"probabilities", std::nullopt, local.inputs[0]}};
}

std::vector<EmittedOp> EmitForward(const SoftmaxCrossEntropy&, const ForwardShard& shard) {
  const Operand &logits = shard.inputs[0], &labels = shard.inputs[1];
  return {{.op = program::SoftmaxCrossEntropyForward{},
           .uses = {Read(logits), Read(labels), Write(shard.saved[0]), Write(shard.output)},
           .work = MoveWork({logits}, {shard.saved[0]}, 5 * program::ElementCount(logits.shape))}};
}

std::vector<EmittedOp> EmitBackward(const SoftmaxCrossEntropy&, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  const Operand &p = shard.saved[0], &labels = shard.inputs[1];
  return {{.op = program::SoftmaxCrossEntropyBackward{},
           .uses = {Read(shard.scalars), Read(p), Read(labels), Write(*shard.d_inputs[0])},
           .work = MoveWork({p}, {*shard.d_inputs[0]}, 2 * program::ElementCount(p.shape))}};
}

}  // namespace colonnade::layers
