// AlexNet of 2014, one column. Source: Krizhevsky 2014, arXiv:1404.5997, section 5. Layers have torchvision's names, so that
// its weights fit.

#include "models/zoo.h"

namespace colonnade::models {

absl::StatusOr<layers::LayerGraph> Alexnet(const ModelOptions& options) {
  const double width = options.width;
  layers::GraphBuilder net("alexnet");
  auto x = net.Input("images", {options.input_channels, options.input_size, options.input_size});
  x = net.Conv2d("features.0", x, {.out_channels = Widen(64, width), .kernel = 11, .stride = 4, .pad = 2});
  x = net.Relu("features.1", x);
  x = net.MaxPool("features.2", x, {.kernel = 3, .stride = 2});
  x = net.Conv2d("features.3", x, {.out_channels = Widen(192, width), .kernel = 5, .pad = 2});
  x = net.Relu("features.4", x);
  x = net.MaxPool("features.5", x, {.kernel = 3, .stride = 2});
  x = net.Conv2d("features.6", x, {.out_channels = Widen(384, width), .kernel = 3, .pad = 1});
  x = net.Relu("features.7", x);
  x = net.Conv2d("features.8", x, {.out_channels = Widen(256, width), .kernel = 3, .pad = 1});
  x = net.Relu("features.9", x);
  x = net.Conv2d("features.10", x, {.out_channels = Widen(256, width), .kernel = 3, .pad = 1});
  x = net.Relu("features.11", x);
  x = net.MaxPool("features.12", x, {.kernel = 3, .stride = 2});
  x = net.Flatten("flatten", x);
  if (options.dropout) x = net.Dropout("classifier.0", x, {.rate = 0.5});
  x = net.FullyConnected("classifier.1", x, {.out_features = Widen(4096, width)});
  x = net.Relu("classifier.2", x);
  if (options.dropout) x = net.Dropout("classifier.3", x, {.rate = 0.5});
  x = net.FullyConnected("classifier.4", x, {.out_features = Widen(4096, width)});
  x = net.Relu("classifier.5", x);
  x = net.FullyConnected("classifier.6", x, {.out_features = options.classes});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
  return std::move(net).Build();
}

}  // namespace colonnade::models
