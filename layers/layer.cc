#include "layers/layer.h"

namespace colonnade::layers {

const char* TypeName(const Layer& layer) {
  return std::visit([](const auto& l) { return TypeName(l); }, layer);
}

absl::StatusOr<program::Shape> OutputSampleShape(const Layer& layer, absl::Span<const program::Shape> inputs) {
  return std::visit([&](const auto& l) { return OutputSampleShape(l, inputs); }, layer);
}

std::vector<ParameterSpec> Parameters(const Layer& layer, absl::Span<const program::Shape> inputs) {
  return std::visit([&](const auto& l) { return Parameters(l, inputs); }, layer);
}

absl::StatusOr<Sharding> Shard(const Layer& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return std::visit([&](const auto& l) { return Shard(l, local, strategy, axis_size); }, layer);
}

LayerStages Stages(const Layer& layer, const LayerShapes& whole, const StageOptions& options) {
  return std::visit([&](const auto& l) { return Stages(l, whole, options); }, layer);
}

}  // namespace colonnade::layers
