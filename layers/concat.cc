#include "layers/concat.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {
namespace {

// The box of the concatenation that input `k` fills.
program::Region PartOf(const std::vector<program::Shape>& inputs, size_t k) {
  program::Region region = program::Region::Whole(inputs[k]);
  for (size_t i = 0; i < k; ++i) region.offset[1] += inputs[i][1];
  return region;
}

template <class Operands>
std::vector<program::Shape> ShapesOf(const Operands& operands) {
  std::vector<program::Shape> shapes;
  for (const Operand& x : operands) shapes.push_back(x.shape);
  return shapes;
}

}  // namespace

const char* TypeName(const Concat&) { return "Concat"; }

absl::StatusOr<program::Shape> OutputSampleShape(const Concat&, absl::Span<const program::Shape> inputs) {
  if (inputs.empty()) return absl::InvalidArgumentError("expected at least one input, found none");
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
  return NotLegal("Concat", strategy, "expected replicate or batch");
}

std::vector<SavedSpec> Saved(const Concat&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const Concat&, const ForwardShard& shard) {
  const std::vector<program::Shape> shapes = ShapesOf(shard.inputs);
  std::vector<EmittedOp> ops;
  for (size_t k = 0; k < shapes.size(); ++k) {
    ops.push_back({.op = program::Copy{},
                   .uses = {Read(shard.inputs[k]), {shard.output.buffer, PartOf(shapes, k), program::Access::kWrite}},
                   .work = MoveWork({shard.inputs[k]}, {shard.inputs[k]})});
  }
  return ops;
}

std::vector<EmittedOp> EmitBackward(const Concat&, const BackwardShard& shard) {
  const std::vector<program::Shape> shapes = ShapesOf(shard.inputs);
  std::vector<EmittedOp> ops;
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (!shard.d_inputs[k]) continue;
    ops.push_back({.op = program::Copy{},
                   .uses = {{shard.d_output->buffer, PartOf(shapes, k), program::Access::kRead}, Write(*shard.d_inputs[k])},
                   .work = MoveWork({*shard.d_inputs[k]}, {*shard.d_inputs[k]})});
  }
  return ops;
}

}  // namespace colonnade::layers
