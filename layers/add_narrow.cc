#include "layers/add_narrow.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {
namespace {

using program::Access;
using Ops = std::vector<EmittedOp>;

// A use of channels [first, end) of a wide tensor.
program::BufferUse Channels(const Operand& wide, int64_t first, int64_t end, Access access) {
  program::BufferUse use{wide.buffer, program::Region::Whole(wide.shape), access};
  use.region.offset[1] = first;
  use.region.size[1] = end - first;
  return use;
}

Ops AddForward(const StageShard& s) {
  const Operand &wide = s[X(0)], &narrow = s[X(1)], &y = s[Y()];
  const int64_t some = narrow.shape[1], all = wide.shape[1];
  Ops ops = {{.op = program::Sum{},
              .uses = {Channels(wide, 0, some, Access::kRead), Read(narrow), Channels(y, 0, some, Access::kWrite)},
              .flops = program::ElementCount(narrow.shape)}};
  if (some == all) return ops;
  ops.push_back(
      {.op = program::Copy{}, .uses = {Channels(wide, some, all, Access::kRead), Channels(y, some, all, Access::kWrite)}});
  return ops;
}

Ops CopyFirstChannels(const StageShard& s) {
  const Operand &dy = s[D(Y())], &dx = s[D(X(1))];
  return {{.op = program::Copy{}, .uses = {Channels(dy, 0, dx.shape[1], Access::kRead), Write(dx)}}};
}

}  // namespace

const char* TypeName(const AddNarrow&) { return "AddNarrow"; }

std::vector<Field> Fields(AddNarrow&) { return {}; }

absl::StatusOr<program::Shape> OutputSampleShape(const AddNarrow&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 2 || inputs[0].empty() || inputs[1].size() != inputs[0].size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected two inputs of equal rank with channels, found %s", Listed(inputs)));
  }
  program::Shape widened = inputs[1];
  widened[0] = inputs[0][0];
  if (widened == inputs[0] && inputs[1][0] <= inputs[0][0]) return inputs[0];
  return absl::InvalidArgumentError(
      absl::StrFormat("expected a second input of at most the first one's channels and else its shape, found %s and %s",
                      program::ToString(inputs[0]), program::ToString(inputs[1])));
}

std::vector<ParameterSpec> Parameters(const AddNarrow&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const AddNarrow&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  if (strategy == Strategy::kReplicate) return ReplicatedSharding(local);
  if (strategy == Strategy::kBatch) return BatchSharding(local, axis_size);
  return NotLegal("AddNarrow", strategy, "expected replicate or batch");
}

LayerStages Stages(const AddNarrow&, const LayerShapes&, const StageOptions&) {
  return {
      .stages = {
          {.pass = program::Pass::kForward, .reads = {X(0), X(1)}, .writes = {Y()}, .emit = AddForward, .reads_parts = true},
          {.pass = program::Pass::kBackward, .reads = {D(Y())}, .writes = {D(X(0))}},
          {.pass = program::Pass::kBackward,
           .reads = {D(Y())},
           .writes = {D(X(1))},
           .emit = CopyFirstChannels,
           .reads_parts = true},
      }};
}

}  // namespace colonnade::layers
