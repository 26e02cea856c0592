// VGG, configurations A (vgg11) and D (vgg16); vgg16_bn normalises each convolution. Source: Simonyan & Zisserman 2014,
// arXiv:1409.1556, table 1. Layers have torchvision's names, so that its weights fit. Weights start as in He et al. 2015
// where the paper trains a shallower network first.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/zoo.h"

namespace colonnade::models {
namespace {

using layers::GraphBuilder;
using layers::LayerId;

// Convolutions of 3x3 in stages, with as many output channels as table 1 says; each stage ends with a pooling that halves
// rows and columns.
using Stages = std::vector<std::vector<int64_t>>;

Stages ConfigurationD() { return {{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}; }

LayerId Features(GraphBuilder& net, LayerId x, const Stages& stages, bool normalised, const ModelOptions& options) {
  int index = 0;
  const auto next_name = [&index] { return absl::StrCat("features.", index++); };
  for (const std::vector<int64_t>& stage : stages) {
    for (int64_t channels : stage) {
      x = net.Conv2d(next_name(), x, {.out_channels = Widen(channels, options.width), .kernel = 3, .pad = 1});
      if (normalised) x = net.BatchNorm(next_name(), x, {.samples_per_group = options.samples_per_group});
      x = net.Relu(next_name(), x);
    }
    x = net.MaxPool(next_name(), x, {.kernel = 2});
  }
  return x;
}

absl::StatusOr<layers::LayerGraph> Vgg(const std::string& name, const Stages& stages, bool normalised,
                                       const ModelOptions& options) {
  GraphBuilder net(name);
  auto x = net.Input("images", {options.input_channels, options.input_size, options.input_size});
  x = Features(net, x, stages, normalised, options);
  x = net.Flatten("flatten", x);
  x = net.FullyConnected("classifier.0", x, {.out_features = Widen(4096, options.width)});
  x = net.Relu("classifier.1", x);
  if (options.dropout) x = net.Dropout("classifier.2", x, {.rate = 0.5});
  x = net.FullyConnected("classifier.3", x, {.out_features = Widen(4096, options.width)});
  x = net.Relu("classifier.4", x);
  if (options.dropout) x = net.Dropout("classifier.5", x, {.rate = 0.5});
  x = net.FullyConnected("classifier.6", x, {.out_features = options.classes});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
  return std::move(net).Build();
}

}  // namespace

absl::StatusOr<layers::LayerGraph> Vgg11(const ModelOptions& options) {
  return Vgg("vgg11", {{64}, {128}, {256, 256}, {512, 512}, {512, 512}}, false, options);
}

absl::StatusOr<layers::LayerGraph> Vgg16(const ModelOptions& options) {
  return Vgg("vgg16", ConfigurationD(), false, options);
}

absl::StatusOr<layers::LayerGraph> Vgg16Bn(const ModelOptions& options) {
  return Vgg("vgg16_bn", ConfigurationD(), true, options);
}

}  // namespace colonnade::models
