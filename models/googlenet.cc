// GoogLeNet, the first network of inception modules, in two variants.
//
// googlenet is the paper's: Szegedy et al. 2014, arXiv:1409.4842, table 1; local response normalisation where its figure 3
// has it; the auxiliary heads, which only help training, as in section 5.
//
// googlenet_bn is torchvision's (googlenet.py), layer names included: each convolution is normalised and has no bias, there
// is no LRN, the "5x5" convolutions are 3x3, and pool4 is 2x2. What evaluation computes is torchvision's. Its heads pool
// adaptively to 4x4; see Cells4x4 for where that is the same here. Weights do not begin as torchvision's (truncated
// Gaussians of deviation 0.01) but as in other networks here. The weights that it publishes are of images with mean 0.5 and
// deviation 0.5 in [0, 1]; those of the heads are not trained.

#include <string>

#include "absl/strings/str_cat.h"
#include "models/zoo.h"

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

// In what the networks differ. Suffixes follow the name of an inception module.
struct Variant {
  const char* name;
  bool batch_norm;       // of each convolution, in place of its bias and of LRN
  int64_t conv5, pool4;  // kernels
  double dropout;
  const char *reduce2, *conv2, *head;
  const char *conv1_suffix, *reduce3_suffix, *conv3_suffix, *reduce5_suffix, *conv5_suffix, *pooled_suffix;
};

constexpr Variant kPaper = {.name = "googlenet",
                            .batch_norm = false,
                            .conv5 = 5,
                            .pool4 = 3,
                            .dropout = 0.4,
                            .reduce2 = "reduce2",
                            .conv2 = "conv2",
                            .head = "head",
                            .conv1_suffix = ".conv1",
                            .reduce3_suffix = ".reduce3",
                            .conv3_suffix = ".conv3",
                            .reduce5_suffix = ".reduce5",
                            .conv5_suffix = ".conv5",
                            .pooled_suffix = ".pooled"};
constexpr Variant kTorchvision = {.name = "googlenet_bn",
                                  .batch_norm = true,
                                  .conv5 = 3,
                                  .pool4 = 2,
                                  .dropout = 0.2,
                                  .reduce2 = "conv2",
                                  .conv2 = "conv3",
                                  .head = "aux",
                                  .conv1_suffix = ".branch1",
                                  .reduce3_suffix = ".branch2.0",
                                  .conv3_suffix = ".branch2.1",
                                  .reduce5_suffix = ".branch3.0",
                                  .conv5_suffix = ".branch3.1",
                                  .pooled_suffix = ".branch4.1"};

class GooglenetBuilder {
 public:
  GooglenetBuilder(const Variant& variant, const ModelOptions& options)
      : net_(variant.name), variant_(variant), options_(options) {}

  absl::StatusOr<layers::LayerGraph> Build() && {
    LayerId x = net_.Input("images", {options_.input_channels, options_.input_size, options_.input_size});
    x = Lrn("norm1", Halved("pool1", ConvRelu("conv1", x, 64, 7, 2)));
    x = ConvRelu(variant_.conv2, ConvRelu(variant_.reduce2, x, 64, 1), 192, 3);
    x = Halved("pool2", Lrn("norm2", x));
    x = Inception({"3a", 64, 96, 128, 16, 32, 32}, x);
    x = Halved("pool3", Inception({"3b", 128, 128, 192, 32, 96, 64}, x));
    x = Inception({"4a", 192, 96, 208, 16, 48, 64}, x);
    if (options_.auxiliary_heads) Head(1, x);
    x = Inception({"4b", 160, 112, 224, 24, 64, 64}, x);
    x = Inception({"4c", 128, 128, 256, 24, 64, 64}, x);
    x = Inception({"4d", 112, 144, 288, 32, 64, 64}, x);
    if (options_.auxiliary_heads) Head(2, x);
    x = Halved("pool4", Inception({"4e", 256, 160, 320, 32, 128, 128}, x), variant_.pool4);
    x = Inception({"5a", 256, 160, 320, 32, 128, 128}, x);
    x = Inception({"5b", 384, 192, 384, 48, 128, 128}, x);
    x = net_.Flatten("flatten", net_.GlobalAvgPool("pool5", x));
    if (options_.dropout) x = net_.Dropout("dropout", x, {.rate = variant_.dropout});
    x = net_.FullyConnected("fc", x, {.out_features = options_.classes});
    net_.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options_.label_smoothing});
    return std::move(net_).Build();
  }

 private:
  LayerId Lrn(const std::string& name, LayerId x) {
    return variant_.batch_norm ? x : net_.Lrn(name, x, {.size = 5, .alpha = 1e-4, .beta = 0.75, .k = 1});
  }

  LayerId Halved(const std::string& name, LayerId x, int64_t kernel = 3) {
    return net_.MaxPool(name, x, {.kernel = kernel, .stride = 2, .ceil_mode = true});
  }

  LayerId ConvRelu(const std::string& name, LayerId x, int64_t channels, int64_t kernel, int64_t stride = 1) {
    const bool normalised = variant_.batch_norm;
    x = net_.Conv2d(normalised ? name + ".conv" : name, x,
                    {.out_channels = Widen(channels, options_.width),
                     .kernel = kernel,
                     .stride = stride,
                     .pad = kernel / 2,
                     .bias = !normalised});
    if (normalised) {
      x = net_.BatchNorm(name + ".bn", x, {.epsilon = 1e-3, .samples_per_group = options_.samples_per_group});
    }
    return net_.Relu(name + ".relu", x);
  }

  LayerId Inception(const Module& m, LayerId x) {
    const std::string name = absl::StrCat("inception", m.name);
    const Variant& v = variant_;
    const LayerId of1 = ConvRelu(name + v.conv1_suffix, x, m.conv1, 1);
    const LayerId of3 = ConvRelu(name + v.conv3_suffix, ConvRelu(name + v.reduce3_suffix, x, m.reduce3, 1), m.conv3, 3);
    const LayerId of5 =
        ConvRelu(name + v.conv5_suffix, ConvRelu(name + v.reduce5_suffix, x, m.reduce5, 1), m.conv5, v.conv5);
    const LayerId pool = net_.MaxPool(name + ".pool", x, {.kernel = 3, .stride = 1, .pad = 1});
    return net_.Concat(name + ".concat", {of1, of3, of5, ConvRelu(name + v.pooled_suffix, pool, m.pooled, 1)});
  }

  // Of the images that heads read, for googlenet_bn: 4x4 windows of one size and stride that leave no cell out. On images of
  // 4n rows these are torchvision's adaptive ones. On others torchvision's lie at uneven distances, which no AvgPool does:
  // on 14x14 (of 224x224) they are 4 wide at 0, 3, 7 and 10, and those here 5 wide at 0, 3, 6 and 9, which is the paper's
  // head.
  layers::AvgPool Cells4x4() const {
    const int64_t rows = (options_.input_size + 1) / 16;  // conv1 and three poolings halve
    if (rows < 4) return {.kernel = 4};                   // is refused
    return {.kernel = rows - 3 * (rows / 4), .stride = rows / 4};
  }

  void Head(int number, LayerId x) {
    const std::string name = absl::StrCat(variant_.head, number);
    x = net_.AvgPool(name + ".pool", x, variant_.batch_norm ? Cells4x4() : layers::AvgPool{.kernel = 5, .stride = 3});
    x = net_.Flatten(name + ".flatten", ConvRelu(name + ".conv", x, 128, 1));
    x = net_.FullyConnected(name + ".fc1", x, {.out_features = Widen(1024, options_.width)});
    x = net_.Relu(name + ".relu", x);
    if (options_.dropout) x = net_.Dropout(name + ".dropout", x, {.rate = 0.7});
    x = net_.FullyConnected(name + ".fc2", x, {.out_features = options_.classes});
    net_.SoftmaxCrossEntropy(name + ".loss", x, {.weight = 0.3, .label_smoothing = options_.label_smoothing});
  }

  GraphBuilder net_;
  const Variant& variant_;
  const ModelOptions& options_;
};

}  // namespace

absl::StatusOr<layers::LayerGraph> Googlenet(const ModelOptions& options) {
  return GooglenetBuilder(kPaper, options).Build();
}
absl::StatusOr<layers::LayerGraph> GooglenetBn(const ModelOptions& options) {
  return GooglenetBuilder(kTorchvision, options).Build();
}

}  // namespace colonnade::models
