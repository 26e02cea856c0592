#include "layers/flatten.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {

const char* TypeName(const Flatten&) { return "Flatten"; }

std::vector<Field> Fields(Flatten&) { return {}; }

absl::StatusOr<program::Shape> OutputSampleShape(const Flatten&, absl::Span<const program::Shape> inputs) {
  if (inputs.size() == 1) return program::Shape{program::ElementCount(inputs[0])};
  return absl::InvalidArgumentError(absl::StrFormat("expected one input, found %d", inputs.size()));
}

std::vector<ParameterSpec> Parameters(const Flatten&, absl::Span<const program::Shape>) { return {}; }

// A shard of the channels is, flattened, a shard of the features.
absl::StatusOr<Sharding> Shard(const Flatten&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

LayerStages Stages(const Flatten&, const LayerShapes&, const StageOptions&) {
  const auto copy = [](Slot from, Slot to) {
    return [from, to](const StageShard& s) -> std::vector<EmittedOp> {
      return {{.op = program::Copy{}, .uses = {Read(s[from]), Write(s[to])}}};
    };
  };
  return {.stages = {
              {.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y()}, .emit = copy(X(), Y()), .by_sample = true},
              {.pass = program::Pass::kBackward,
               .reads = {D(Y())},
               .writes = {D(X())},
               .emit = copy(D(Y()), D(X())),
               .by_sample = true},
          }};
}

}  // namespace colonnade::layers
