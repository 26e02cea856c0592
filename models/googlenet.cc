// GoogLeNet, the first network of inception modules. Source: Szegedy et al. 2014, arXiv:1409.4842, table 1; local response
// normalisation where its figure 3 has it; the auxiliary heads, which only help training, as in section 5.

#include <string>

#include "models/models.h"

namespace colonnade::models {
namespace {

using layers::GraphBuilder;
using layers::LayerId;

// A row of table 1: channels of the 1x1, the 3x3 and the 5x5 convolution, the latter two each with the 1x1 convolution that
// reduces its input, and of the 1x1 convolution behind the pooling.
struct Module {
  const char* name;
  int64_t conv1, reduce3, conv3, reduce5, conv5, pooled;
};

class GooglenetBuilder {
 public:
  explicit GooglenetBuilder(const ModelOptions& options) : net_("googlenet"), options_(options) {}

  absl::StatusOr<layers::LayerGraph> Build() && {
    LayerId x = net_.Input("images", {options_.input_channels, options_.input_size, options_.input_size});
    x = Halved("pool1", ConvRelu("conv1", x, 64, 7, 2));
    x = ConvRelu("conv2", ConvRelu("reduce2", net_.Lrn("norm1", x, kNormalisation), 64, 1), 192, 3);
    x = Halved("pool2", net_.Lrn("norm2", x, kNormalisation));
    x = Inception({"3a", 64, 96, 128, 16, 32, 32}, x);
    x = Halved("pool3", Inception({"3b", 128, 128, 192, 32, 96, 64}, x));
    x = Inception({"4a", 192, 96, 208, 16, 48, 64}, x);
    if (options_.auxiliary_heads) Head("head1", x);
    x = Inception({"4b", 160, 112, 224, 24, 64, 64}, x);
    x = Inception({"4c", 128, 128, 256, 24, 64, 64}, x);
    x = Inception({"4d", 112, 144, 288, 32, 64, 64}, x);
    if (options_.auxiliary_heads) Head("head2", x);
    x = Halved("pool4", Inception({"4e", 256, 160, 320, 32, 128, 128}, x));
    x = Inception({"5a", 256, 160, 320, 32, 128, 128}, x);
    x = Inception({"5b", 384, 192, 384, 48, 128, 128}, x);
    x = net_.Flatten("flatten", net_.GlobalAvgPool("pool5", x));
    if (options_.dropout) x = net_.Dropout("dropout", x, {.rate = 0.4});
    x = net_.FullyConnected("fc", x, {.out_features = options_.classes});
    net_.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options_.label_smoothing});
    return std::move(net_).Build();
  }

 private:
  static constexpr layers::Lrn kNormalisation{.size = 5, .alpha = 1e-4, .beta = 0.75, .k = 1};

  LayerId Halved(const std::string& name, LayerId x) {
    return net_.MaxPool(name, x, {.kernel = 3, .stride = 2, .ceil_mode = true});
  }

  LayerId ConvRelu(const std::string& name, LayerId x, int64_t channels, int64_t kernel, int64_t stride = 1) {
    const int64_t out = Widen(channels, options_.width);
    x = net_.Conv2d(name, x, {.out_channels = out, .kernel = kernel, .stride = stride, .pad = kernel / 2});
    return net_.Relu(name + ".relu", x);
  }

  LayerId Inception(const Module& m, LayerId x) {
    const std::string name = std::string("inception") + m.name;
    const LayerId of1 = ConvRelu(name + ".conv1", x, m.conv1, 1);
    const LayerId of3 = ConvRelu(name + ".conv3", ConvRelu(name + ".reduce3", x, m.reduce3, 1), m.conv3, 3);
    const LayerId of5 = ConvRelu(name + ".conv5", ConvRelu(name + ".reduce5", x, m.reduce5, 1), m.conv5, 5);
    const LayerId pool = net_.MaxPool(name + ".pool", x, {.kernel = 3, .stride = 1, .pad = 1});
    return net_.Concat(name + ".concat", {of1, of3, of5, ConvRelu(name + ".pooled", pool, m.pooled, 1)});
  }

  void Head(const std::string& name, LayerId x) {
    x = net_.AvgPool(name + ".pool", x, {.kernel = 5, .stride = 3});
    x = net_.Flatten(name + ".flatten", ConvRelu(name + ".conv", x, 128, 1));
    x = net_.FullyConnected(name + ".fc1", x, {.out_features = Widen(1024, options_.width)});
    x = net_.Relu(name + ".relu", x);
    if (options_.dropout) x = net_.Dropout(name + ".dropout", x, {.rate = 0.7});
    x = net_.FullyConnected(name + ".fc2", x, {.out_features = options_.classes});
    net_.SoftmaxCrossEntropy(name + ".loss", x, {.weight = 0.3, .label_smoothing = options_.label_smoothing});
  }

  GraphBuilder net_;
  const ModelOptions& options_;
};

}  // namespace

absl::StatusOr<layers::LayerGraph> Googlenet(const ModelOptions& options) { return GooglenetBuilder(options).Build(); }

}  // namespace colonnade::models
