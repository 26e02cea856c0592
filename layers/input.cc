#include "layers/input.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {

const char* TypeName(const Input&) { return "Input"; }

std::vector<Field> Fields(Input& input) { return {{"sample_shape", &input.sample_shape}}; }

absl::StatusOr<program::Shape> OutputSampleShape(const Input& layer, absl::Span<const program::Shape> inputs) {
  const size_t rank = layer.sample_shape.size();
  bool fits = (rank == 1 || rank == 3) && inputs.empty();
  for (int64_t extent : layer.sample_shape) fits = fits && extent > 0;
  if (fits) return layer.sample_shape;
  return absl::InvalidArgumentError(
      absl::StrFormat("expected a sample shape [C,H,W] of images, or [F] in C++ alone, of positive extents, found %s",
                      program::ToString(layer.sample_shape)));
}

std::vector<ParameterSpec> Parameters(const Input&, absl::Span<const program::Shape>) { return {}; }
absl::StatusOr<Sharding> Shard(const Input&, const LayerShapes& local, Strategy, int64_t) {
  return ReplicatedSharding(local);
}
LayerStages Stages(const Input&, const LayerShapes&, const StageOptions&) { return {}; }

}  // namespace colonnade::layers
