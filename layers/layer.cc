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

std::vector<SavedSpec> Saved(const Layer& layer, const LayerShapes& local) {
  return std::visit([&](const auto& l) { return Saved(l, local); }, layer);
}

std::vector<EmittedOp> EmitForward(const Layer& layer, const ForwardShard& shard) {
  return std::visit([&](const auto& l) { return EmitForward(l, shard); }, layer);
}

std::vector<EmittedOp> EmitBackward(const Layer& layer, const BackwardShard& shard) {
  return std::visit([&](const auto& l) { return EmitBackward(l, shard); }, layer);
}

}  // namespace colonnade::layers
