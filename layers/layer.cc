#include "layers/layer.h"

namespace colonnade::layers {
namespace {

template <class Variant>
struct Types;
template <class... L>
struct Types<std::variant<L...>> {
  static std::vector<Layer> Defaults() { return {L{}...}; }
};

}  // namespace

const std::vector<Layer>& DefaultLayers() {
  static const auto& layers = *new std::vector<Layer>(Types<Layer>::Defaults());
  return layers;
}

const char* TypeName(const Layer& layer) {
  return std::visit([](const auto& l) { return TypeName(l); }, layer);
}

std::vector<Field> Fields(Layer& layer) {
  return std::visit([](auto& l) { return Fields(l); }, layer);
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
