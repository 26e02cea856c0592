#include "layers/add.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {

const char* TypeName(const Add&) { return "Add"; }

std::vector<Field> Fields(Add&) { return {}; }

absl::StatusOr<program::Shape> OutputSampleShape(const Add&, absl::Span<const program::Shape> inputs) {
  RETURN_IF_ERROR(CheckSeveral(inputs));
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

LayerStages Stages(const Add&, const LayerShapes& whole, const StageOptions&) {
  const int count = static_cast<int>(whole.inputs.size());
  Stage forward{.pass = program::Pass::kForward, .writes = {Y()}, .meaning = Addition{}},
      backward{.pass = program::Pass::kBackward, .reads = {D(Y())}};
  for (int k = 0; k < count; ++k) {
    forward.reads.push_back(X(k));
    backward.writes.push_back(D(X(k)));
  }
  forward.emit = [count](const StageShard& s) -> std::vector<EmittedOp> {
    EmittedOp sum{.op = program::Sum{}};
    for (int k = 0; k < count; ++k) sum.uses.push_back(Read(s[X(k)]));
    sum.uses.push_back(Write(s[Y()]));
    sum.flops = CountedFlops(static_cast<double>(program::ElementCount(s[Y()].shape)) * (count - 1));
    return {std::move(sum)};
  };
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
