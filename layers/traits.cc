#include "layers/traits.h"

namespace colonnade::layers {
namespace {

// A row for each layer of which something is true; of the others nothing is.
struct Describe {
  template <LayerType L>
  LayerTraits operator()(const L&) const {
    return {};
  }
  LayerTraits operator()(const Input&) const { return {.is_input = true}; }
  LayerTraits operator()(const Conv2d& conv) const {
    return {.is_convolution = true, .multiplies_weights = true, .groups = conv.groups};
  }
  LayerTraits operator()(const FullyConnected&) const { return {.multiplies_weights = true}; }
  LayerTraits operator()(const Concat&) const { return {.joins_channels = true}; }
  LayerTraits operator()(const MaxPool&) const { return {.keeps_channels = true}; }
  LayerTraits operator()(const AvgPool&) const { return {.keeps_channels = true}; }
  LayerTraits operator()(const Relu&) const { return {.keeps_channels = true}; }
  LayerTraits operator()(const Gelu&) const { return {.keeps_channels = true}; }
  LayerTraits operator()(const BatchNorm& norm) const { return {.samples_per_group = norm.samples_per_group}; }
  LayerTraits operator()(const SoftmaxCrossEntropy&) const { return {.is_loss = true, .needs_all_channels = true}; }
  LayerTraits operator()(const AddNarrow&) const { return {.needs_all_channels = true}; }
};

}  // namespace

LayerTraits TraitsOf(const Layer& layer) { return std::visit(Describe{}, layer); }

}  // namespace colonnade::layers
