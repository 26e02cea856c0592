// AlexNet of 2012: what its two columns compute, as one network of grouped convolutions.
//
// Source: Krizhevsky, Sutskever, Hinton 2012, sections 3 and 5: layer sizes, local response normalisation (n = 5, alpha
// summed over the window = 5·1e-4, beta = 0.75, k = 2), overlapping pooling, weights Gaussian of deviation 0.01, biases 1 in
// the second, fourth and fifth convolution and the hidden fully connected layers.

#include "models/zoo.h"

namespace colonnade::models {
namespace {

constexpr program::Initializer kGaussian{program::Initializer::Kind::kGaussian, 0.01};
constexpr program::Initializer kOne{program::Initializer::Kind::kConstant, 1.0};
// The paper does not divide alpha by the window's size, this Lrn does.
constexpr layers::Lrn kNormalisation{.size = 5, .groups = 2, .alpha = 5e-4, .beta = 0.75, .k = 2.0};

}  // namespace

absl::StatusOr<layers::LayerGraph> Alexnet2012(const ModelOptions& options) {
  const double width = options.width;
  layers::GraphBuilder net("alexnet2012");
  auto x = net.Input("images", {options.input_channels, options.input_size, options.input_size});
  x = net.Conv2d("conv1", x, {.out_channels = Widen(96, width), .kernel = 11, .stride = 4, .weight_init = kGaussian});
  x = net.Relu("relu1", x);
  x = net.Lrn("norm1", x, kNormalisation);
  x = net.MaxPool("pool1", x, {.kernel = 3, .stride = 2});
  x = net.Conv2d(
      "conv2", x,
      {.out_channels = Widen(256, width), .kernel = 5, .pad = 2, .groups = 2, .weight_init = kGaussian, .bias_init = kOne});
  x = net.Relu("relu2", x);
  x = net.Lrn("norm2", x, kNormalisation);
  x = net.MaxPool("pool2", x, {.kernel = 3, .stride = 2});
  x = net.Conv2d("conv3", x, {.out_channels = Widen(384, width), .kernel = 3, .pad = 1, .weight_init = kGaussian});
  x = net.Relu("relu3", x);
  x = net.Conv2d(
      "conv4", x,
      {.out_channels = Widen(384, width), .kernel = 3, .pad = 1, .groups = 2, .weight_init = kGaussian, .bias_init = kOne});
  x = net.Relu("relu4", x);
  x = net.Conv2d(
      "conv5", x,
      {.out_channels = Widen(256, width), .kernel = 3, .pad = 1, .groups = 2, .weight_init = kGaussian, .bias_init = kOne});
  x = net.Relu("relu5", x);
  x = net.MaxPool("pool5", x, {.kernel = 3, .stride = 2});
  x = net.Flatten("flatten", x);
  x = net.FullyConnected("fc6", x, {.out_features = Widen(4096, width), .weight_init = kGaussian, .bias_init = kOne});
  x = net.Relu("relu6", x);
  if (options.dropout) x = net.Dropout("dropout6", x, {.rate = 0.5});
  x = net.FullyConnected("fc7", x, {.out_features = Widen(4096, width), .weight_init = kGaussian, .bias_init = kOne});
  x = net.Relu("relu7", x);
  if (options.dropout) x = net.Dropout("dropout7", x, {.rate = 0.5});
  x = net.FullyConnected("fc8", x, {.out_features = options.classes, .weight_init = kGaussian});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
  return std::move(net).Build();
}

}  // namespace colonnade::models
