#include "layers/traits.h"

namespace colonnade::layers {
namespace {

// A row for each layer of which something is true; of the others nothing is.
struct Describe {
  template <LayerType L>
  LayerTraits operator()(const L&) const {
    return {};
  }
  LayerTraits operator()(const Input&) const { return {.role = LayerRole::kInput}; }
  LayerTraits operator()(const Conv2d& conv) const { return {.role = LayerRole::kConvolution, .groups = conv.groups}; }
  LayerTraits operator()(const FullyConnected&) const { return {.role = LayerRole::kMatrixProduct}; }
  LayerTraits operator()(const Concat&) const { return {.channels = ChannelUse::kJoins}; }
  LayerTraits operator()(const MaxPool&) const { return {.channels = ChannelUse::kKeeps}; }
  LayerTraits operator()(const AvgPool&) const { return {.channels = ChannelUse::kKeeps}; }
  LayerTraits operator()(const Relu&) const { return {.channels = ChannelUse::kKeeps}; }
  LayerTraits operator()(const Gelu&) const { return {.channels = ChannelUse::kKeeps}; }
  LayerTraits operator()(const BatchNorm& norm) const {
    return {.samples_per_group = norm.samples_per_group, .normalises_samples = true};
  }
  LayerTraits operator()(const LayerNorm&) const { return {.normalises_channels = true}; }
  LayerTraits operator()(const SoftmaxCrossEntropy&) const {
    return {.role = LayerRole::kLoss, .channels = ChannelUse::kNeedsAll};
  }
  LayerTraits operator()(const AddNarrow&) const { return {.channels = ChannelUse::kNeedsAll}; }
};

}  // namespace

LayerTraits TraitsOf(const Layer& layer) { return std::visit(Describe{}, layer); }

}  // namespace colonnade::layers
