#include "layers/input.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"

namespace colonnade::layers {

const char* TypeName(const Input&) { return "Input"; }

std::vector<Field> Fields(Input& input) { return {{"sample_shape", &input.sample_shape}}; }

absl::StatusOr<program::Shape> OutputSampleShape(const Input& layer, absl::Span<const program::Shape> inputs) {
  bool positive = !layer.sample_shape.empty() && inputs.empty();
  for (int64_t extent : layer.sample_shape) positive = positive && extent > 0;
  if (positive) return layer.sample_shape;
  return absl::InvalidArgumentError(
      absl::StrFormat("expected a sample shape of positive extents, found %s", program::ToString(layer.sample_shape)));
}

std::vector<ParameterSpec> Parameters(const Input&, absl::Span<const program::Shape>) { return {}; }
absl::StatusOr<Sharding> Shard(const Input&, const LayerShapes& local, Strategy, int64_t) {
  return ReplicatedSharding(local);
}
LayerStages Stages(const Input&, const LayerShapes&, const StageOptions&) { return {}; }

}  // namespace colonnade::layers
