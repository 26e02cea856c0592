// A small network in the manner of Krizhevsky et al. 2012, for 8x8 digits: conv2 and conv4 stay within their column, conv3
// and the fully connected layers read both.

#include "models/zoo.h"

namespace colonnade::models {

absl::StatusOr<layers::LayerGraph> TwoColumn(const ModelOptions& options) {
  const double width = options.width;
  layers::GraphBuilder net("two_column");
  auto x = net.Input("images", {options.input_channels, options.input_size, options.input_size});
  x = net.Conv2d("conv1", x, {.out_channels = Widen(32, width), .kernel = 3, .pad = 1});
  x = net.Relu("relu1", x);
  x = net.Lrn("norm1", x, {.groups = 2});
  x = net.Conv2d("conv2", x, {.out_channels = Widen(64, width), .kernel = 3, .pad = 1, .groups = 2});
  x = net.Relu("relu2", x);
  x = net.MaxPool("pool2", x, {.kernel = 2});
  x = net.Conv2d("conv3", x, {.out_channels = Widen(64, width), .kernel = 3, .pad = 1});
  x = net.Relu("relu3", x);
  x = net.Conv2d("conv4", x, {.out_channels = Widen(64, width), .kernel = 3, .pad = 1, .groups = 2});
  x = net.Relu("relu4", x);
  x = net.MaxPool("pool4", x, {.kernel = 2});
  x = net.Flatten("flatten", x);
  x = net.FullyConnected("fc5", x, {.out_features = Widen(128, width)});
  x = net.Relu("relu5", x);
  if (options.dropout) x = net.Dropout("dropout5", x, {.rate = 0.25});
  x = net.FullyConnected("fc6", x, {.out_features = options.classes});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
  return std::move(net).Build();
}

}  // namespace colonnade::models
