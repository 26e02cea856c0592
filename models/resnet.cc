// Residual networks. Sources: He et al. 2015, arXiv:1512.03385; Xie et al. 2016, arXiv:1611.05431 (resnext50_32x4d). Those
// for ImageNet are torchvision's, layer names included: "v1.5", with the stride of a bottleneck in its 3x3 convolution.
// Those for images of 32x32 are of the paper's section 4.2, with shortcuts without parameters (option A).

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/zoo.h"

namespace colonnade::models {
namespace {

using layers::GraphBuilder;
using layers::LayerId;

// What all residual networks have.
struct Parts {
  Parts(const std::string& name, const ModelOptions& options) : net(name), options(options) {}

  LayerId Images() { return net.Input("images", {options.input_channels, options.input_size, options.input_size}); }

  struct Convolution {
    int64_t channels, kernel = 3, stride = 1, groups = 1;
    bool ends_branch = false;  // the last one of a residual branch
  };
  // A convolution that keeps the image's size but for its stride, and its normalisation.
  LayerId ConvAndNorm(const std::string& conv, const std::string& norm, LayerId x, const Convolution& c) {
    x = net.Conv2d(conv, x,
                   {.out_channels = c.channels,
                    .kernel = c.kernel,
                    .stride = c.stride,
                    .pad = c.kernel / 2,
                    .groups = c.groups,
                    .bias = false});
    const bool begins_at_zero = c.ends_branch && options.zero_init_residual;
    return net.BatchNorm(norm, x,
                         {.samples_per_group = options.samples_per_group, .initial_weight = begins_at_zero ? 0.0 : 1.0});
  }

  absl::StatusOr<layers::LayerGraph> Classify(LayerId x, int64_t features) {
    x = net.Flatten("flatten", net.GlobalAvgPool("avgpool", x));
    const double bound = 1 / std::sqrt(static_cast<double>(features));
    const program::Initializer uniform{program::Initializer::Kind::kUniform, bound};
    x = net.FullyConnected("fc", x, {.out_features = options.classes, .weight_init = uniform, .bias_init = uniform});
    net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = options.label_smoothing});
    return std::move(net).Build();
  }

  GraphBuilder net;
  const ModelOptions& options;
};

// What distinguishes the networks for ImageNet.
struct Architecture {
  std::vector<int> blocks;       // in each of four stages
  bool bottleneck = false;       // blocks of 1x1, 3x3, 1x1 convolutions, else of two 3x3
  int64_t groups = 1;            // of the 3x3 convolutions in bottlenecks
  int64_t width_per_group = 64;  // of these, in the first stage
};

class ImageNetBuilder {
 public:
  ImageNetBuilder(const std::string& name, Architecture architecture, const ModelOptions& options)
      : parts_(name, options), net_(parts_.net), width_(options.width), architecture_(std::move(architecture)) {}

  absl::StatusOr<layers::LayerGraph> Build() {
    channels_ = Widen(64, width_);
    LayerId x = parts_.ConvAndNorm("conv1", "bn1", parts_.Images(), {.channels = channels_, .kernel = 7, .stride = 2});
    x = net_.MaxPool("maxpool", net_.Relu("relu", x), {.kernel = 3, .stride = 2, .pad = 1});
    for (int stage = 0; stage < static_cast<int>(architecture_.blocks.size()); ++stage) {
      for (int block = 0; block < architecture_.blocks[stage]; ++block) {
        x = Block(absl::StrCat("layer", stage + 1, ".", block), x, int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1);
      }
    }
    return parts_.Classify(x, channels_);
  }

 private:
  LayerId Block(const std::string& name, LayerId x, int64_t planes, int64_t stride) {
    const int64_t out = Widen(architecture_.bottleneck ? 4 * planes : planes, width_);
    const LayerId y = architecture_.bottleneck ? Bottleneck(name, x, planes, out, stride) : Basic(name, x, out, stride);
    if (stride != 1 || channels_ != out) {
      x = parts_.ConvAndNorm(name + ".downsample.0", name + ".downsample.1", x,
                             {.channels = out, .kernel = 1, .stride = stride});
    }
    channels_ = out;
    return net_.Relu(name + ".relu", net_.Add(name + ".add", {y, x}));
  }

  LayerId Basic(const std::string& name, LayerId x, int64_t out, int64_t stride) {
    x = parts_.ConvAndNorm(name + ".conv1", name + ".bn1", x, {.channels = out, .stride = stride});
    x = net_.Relu(name + ".relu1", x);
    return parts_.ConvAndNorm(name + ".conv2", name + ".bn2", x, {.channels = out, .ends_branch = true});
  }

  // Channels between the 1x1 convolutions. Groups keep their number, and each has at least one channel.
  int64_t Inner(int64_t per_group) const {
    if (architecture_.groups == 1) return Widen(per_group, width_);
    const int64_t widened = std::llround(static_cast<double>(per_group) * width_);
    return architecture_.groups * std::max<int64_t>(1, widened);
  }

  LayerId Bottleneck(const std::string& name, LayerId x, int64_t planes, int64_t out, int64_t stride) {
    const int64_t groups = architecture_.groups, inner = Inner(planes * architecture_.width_per_group / 64);
    x = parts_.ConvAndNorm(name + ".conv1", name + ".bn1", x, {.channels = inner, .kernel = 1});
    x = net_.Relu(name + ".relu1", x);
    x = parts_.ConvAndNorm(name + ".conv2", name + ".bn2", x, {.channels = inner, .stride = stride, .groups = groups});
    x = net_.Relu(name + ".relu2", x);
    return parts_.ConvAndNorm(name + ".conv3", name + ".bn3", x, {.channels = out, .kernel = 1, .ends_branch = true});
  }

  Parts parts_;
  GraphBuilder& net_;
  const double width_;
  const Architecture architecture_;
  int64_t channels_ = 0;  // of what the last block made
};

// Three stages of `blocks` blocks, with 16, 32 and 64 channels on images of 32, 16 and 8 rows.
class SmallImageBuilder {
 public:
  SmallImageBuilder(const std::string& name, const ModelOptions& options)
      : parts_(name, options), net_(parts_.net), width_(options.width) {}

  absl::StatusOr<layers::LayerGraph> Build(int blocks) {
    LayerId x = parts_.ConvAndNorm("conv1", "bn1", parts_.Images(), {.channels = Widen(16, width_)});
    x = net_.Relu("relu", x);
    for (int stage = 0; stage < 3; ++stage) {
      for (int block = 0; block < blocks; ++block) {
        x = Block(absl::StrCat("layer", stage + 1, ".", block), x, Widen(int64_t{16} << stage, width_),
                  stage > 0 && block == 0);
      }
    }
    return parts_.Classify(x, Widen(64, width_));
  }

 private:
  LayerId Block(const std::string& name, LayerId x, int64_t channels, bool shrinks) {
    LayerId y = parts_.ConvAndNorm(name + ".conv1", name + ".bn1", x, {.channels = channels, .stride = shrinks ? 2 : 1});
    y = net_.Relu(name + ".relu1", y);
    y = parts_.ConvAndNorm(name + ".conv2", name + ".bn2", y, {.channels = channels, .ends_branch = true});
    if (!shrinks) return net_.Relu(name + ".relu", net_.Add(name + ".add", {y, x}));
    x = net_.AvgPool(name + ".shortcut", x, {.kernel = 1, .stride = 2});  // every second row and column
    return net_.Relu(name + ".relu", net_.AddNarrow(name + ".add", y, x));
  }

  Parts parts_;
  GraphBuilder& net_;
  const double width_;
};

}  // namespace

absl::StatusOr<layers::LayerGraph> Resnet18(const ModelOptions& options) {
  return ImageNetBuilder("resnet18", {.blocks = {2, 2, 2, 2}}, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnet34(const ModelOptions& options) {
  return ImageNetBuilder("resnet34", {.blocks = {3, 4, 6, 3}}, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnet50(const ModelOptions& options) {
  return ImageNetBuilder("resnet50", {.blocks = {3, 4, 6, 3}, .bottleneck = true}, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnet101(const ModelOptions& options) {
  return ImageNetBuilder("resnet101", {.blocks = {3, 4, 23, 3}, .bottleneck = true}, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnet152(const ModelOptions& options) {
  return ImageNetBuilder("resnet152", {.blocks = {3, 8, 36, 3}, .bottleneck = true}, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnext50_32x4d(const ModelOptions& options) {
  const Architecture architecture{.blocks = {3, 4, 6, 3}, .bottleneck = true, .groups = 32, .width_per_group = 4};
  return ImageNetBuilder("resnext50_32x4d", architecture, options).Build();
}
absl::StatusOr<layers::LayerGraph> Resnet20(const ModelOptions& options) {
  return SmallImageBuilder("resnet20", options).Build(3);
}
absl::StatusOr<layers::LayerGraph> Resnet56(const ModelOptions& options) {
  return SmallImageBuilder("resnet56", options).Build(9);
}

}  // namespace colonnade::models
