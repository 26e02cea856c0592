// LeNet-5. Source: LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document recognition", section
// II.B; with ReLU for tanh, max pooling for trained subsampling, and all of S2's maps read by C3.

#include "models/zoo.h"

namespace colonnade::models {

absl::StatusOr<layers::LayerGraph> Lenet(const ModelOptions& options) {
  const double width = options.width;
  layers::GraphBuilder net("lenet");
  auto x = net.Input("images", {options.input_channels, options.input_size, options.input_size});
  x = net.Conv2d("conv1", x, {.out_channels = Widen(6, width), .kernel = 5, .pad = 2});
  x = net.Relu("relu1", x);
  x = net.MaxPool("pool2", x, {.kernel = 2});
  x = net.Conv2d("conv3", x, {.out_channels = Widen(16, width), .kernel = 5});
  x = net.Relu("relu3", x);
  x = net.MaxPool("pool4", x, {.kernel = 2});
  x = net.Conv2d("conv5", x, {.out_channels = Widen(120, width), .kernel = 5});
  x = net.Relu("relu5", x);
  x = net.Flatten("flatten", x);
  x = net.FullyConnected("fc6", x, {.out_features = Widen(84, width)});
  x = net.Relu("relu6", x);
  x = net.FullyConnected("fc7", x, {.out_features = options.classes});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
  return std::move(net).Build();
}

}  // namespace colonnade::models
