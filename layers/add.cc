#include "layers/add.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const Add&) { return "Add"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Add&, absl::Span<const program::Shape> inputs) {
  if (inputs.empty()) return absl::InvalidArgumentError("expected at least one input, found none");
  for (const program::Shape& x : inputs) {
    if (x != inputs[0]) {
      return absl::InvalidArgumentError(absl::StrFormat("expected inputs of equal shapes, found %s and %s",
                                                        program::ToString(inputs[0]), program::ToString(x)));
    }
  }
  return inputs[0];
}

std::vector<ParameterSpec> Parameters(const Add&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const Add&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const Add&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const Add&, const ForwardShard& shard) {
  const int64_t elements = program::ElementCount(shard.output.shape);
  EmittedOp op{.op = program::Sum{},
               .work = MoveWork(shard.inputs, {shard.output}, elements * (static_cast<int64_t>(shard.inputs.size()) - 1))};
  for (const Operand& x : shard.inputs) op.uses.push_back(Read(x));
  op.uses.push_back(Write(shard.output));
  return {std::move(op)};
}

std::vector<EmittedOp> EmitBackward(const Add&, const BackwardShard& shard) {
  std::vector<EmittedOp> ops;
  for (const std::optional<Operand>& dx : shard.d_inputs) {
    if (!dx) continue;
    ops.push_back({.op = program::Copy{}, .uses = {Read(*shard.d_output), Write(*dx)}, .work = MoveWork({*dx}, {*dx})});
  }
  return ops;
}

}  // namespace colonnade::layers
