#include "models/models.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "models/zoo.h"

namespace colonnade::models {
namespace {

// A network for 1,000 classes of images of 224 pixels.
ModelInfo ForImages(const char* name, const char* description, double learning_rate, double weight_decay,
                    decltype(ModelInfo::build) build) {
  return {.name = name,
          .description = description,
          .input_size = 224,
          .classes = 1000,
          .learning_rate = learning_rate,
          .weight_decay = weight_decay,
          .build = build};
}

ModelInfo WithHeads(ModelInfo model) {
  model.has_auxiliary_heads = true;
  return model;
}

// The network made one for 10 classes of images of 32 pixels.
ModelInfo Small(ModelInfo model) {
  model.input_size = 32;
  model.classes = 10;
  return model;
}

bool HasNormalisation(const layers::LayerGraph& graph, bool (*is_as_asked)(const layers::BatchNorm&)) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const layers::LayerNode& node) {
    const auto* norm = std::get_if<layers::BatchNorm>(&node.layer);
    return norm != nullptr && is_as_asked(*norm);
  });
}

// Checks that `graph`, which `options` made, has the normalisations that they change.
absl::Status CheckNormalisation(const ModelOptions& options, const layers::LayerGraph& graph) {
  const auto fail = [&](absl::string_view option, absl::string_view expected) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: expected a network %s, found %s, which has none", option, expected, graph.name));
  };
  if (options.samples_per_group != 0 &&
      !HasNormalisation(graph, [](const layers::BatchNorm& norm) { return norm.samples_per_group != 0; })) {
    return fail("samples_per_group", "with batch normalisation");
  }
  if (options.zero_init_residual &&
      !HasNormalisation(graph, [](const layers::BatchNorm& norm) { return norm.initial_weight == 0; })) {
    return fail("zero_init_residual", "whose residual branches end in batch normalisation");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Widen(int64_t channels, double width) {
  if (width == 1.0) return channels;
  return std::max<int64_t>(8, 8 * std::llround(static_cast<double>(channels) * width / 8));
}

const std::vector<ModelInfo>& AllModels() {
  static const auto& models = *new std::vector<ModelInfo>{
      {.name = "lenet",
       .description = "LeNet-5 (LeCun et al. 1998) with ReLU and max pooling",
       .input_channels = 1,
       .input_size = 28,
       .classes = 10,
       .learning_rate = 0.02,
       .weight_decay = 5e-4,
       .lr_policy = "step:1000,0.3",
       .build = Lenet},
      {.name = "two_column",
       .description = "two columns with a cross connection, for 8x8 digits",
       .input_channels = 1,
       .input_size = 8,
       .classes = 10,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .lr_policy = "step:450,0.1",
       .shifts_images = true,
       .build = TwoColumn},
      {.name = "alexnet2012",
       .description = "AlexNet of two columns (Krizhevsky, Sutskever, Hinton 2012)",
       .input_size = 227,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .build = Alexnet2012},
      ForImages("alexnet", "AlexNet of one column (Krizhevsky 2014), torchvision's names", 0.01, 5e-4, Alexnet),
      // The paper, section 3.1, divides the rate by 10 whenever the validation accuracy stops improving, which no policy
      // does.
      ForImages("vgg11", "VGG A (Simonyan, Zisserman 2014), torchvision's names", 0.01, 5e-4, Vgg11),
      ForImages("vgg16", "VGG D (Simonyan, Zisserman 2014), torchvision's names", 0.01, 5e-4, Vgg16),
      ForImages("vgg16_bn", "VGG D with batch normalisation, torchvision's names", 0.01, 5e-4, Vgg16Bn),
      WithHeads(ForImages("googlenet", "GoogLeNet (Szegedy et al. 2014)", 0.01, 2e-4, Googlenet)),
      WithHeads(
          ForImages("googlenet_bn", "GoogLeNet with batch normalisation, torchvision's names", 0.01, 2e-4, GooglenetBn)),
      ForImages("resnet18", "ResNet-18 (He et al. 2015), torchvision's names", 0.1, 1e-4, Resnet18),
      ForImages("resnet34", "ResNet-34 (He et al. 2015), torchvision's names", 0.1, 1e-4, Resnet34),
      ForImages("resnet50", "ResNet-50 (He et al. 2015), torchvision's names", 0.1, 1e-4, Resnet50),
      ForImages("resnet101", "ResNet-101 (He et al. 2015), torchvision's names", 0.1, 1e-4, Resnet101),
      ForImages("resnet152", "ResNet-152 (He et al. 2015), torchvision's names", 0.1, 1e-4, Resnet152),
      ForImages("resnext50_32x4d", "ResNeXt-50 32x4d (Xie et al. 2016), torchvision's names", 0.1, 1e-4, Resnext50_32x4d),
      Small(ForImages("resnet20", "ResNet-20 for 32x32 (He et al. 2015, section 4.2)", 0.1, 1e-4, Resnet20)),
      Small(ForImages("resnet56", "ResNet-56 for 32x32 (He et al. 2015, section 4.2)", 0.1, 1e-4, Resnet56)),
  };
  return models;
}

absl::StatusOr<const ModelInfo*> FindModel(absl::string_view name) {
  std::vector<std::string> names;
  for (const ModelInfo& model : AllModels()) {
    if (name == absl::string_view(model.name)) return &model;
    names.push_back(model.name);
  }
  return absl::FailedPreconditionError(absl::StrFormat("unknown model \"%s\"%s; expected one of %s", name,
                                                       base::DidYouMean(", ", name, names), absl::StrJoin(names, ", ")));
}

absl::StatusOr<layers::LayerGraph> BuildModel(absl::string_view name, const ModelOptions& options) {
  ASSIGN_OR_RETURN(const ModelInfo* model, FindModel(name));
  if (!(options.width > 0) || options.width > 64) {
    return absl::FailedPreconditionError(
        absl::StrFormat("width: expected a number above 0 and up to 64, found %g", options.width));
  }
  if (options.auxiliary_heads && !model->has_auxiliary_heads) {
    std::vector<std::string> with_heads;
    for (const ModelInfo& other : AllModels()) {
      if (other.has_auxiliary_heads) with_heads.push_back(other.name);
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("%s has no auxiliary heads; %s have", name, absl::StrJoin(with_heads, " and ")));
  }
  ModelOptions complete = options;
  if (complete.input_channels == 0) complete.input_channels = model->input_channels;
  if (complete.input_size == 0) complete.input_size = model->input_size;
  if (complete.classes == 0) complete.classes = model->classes;
  ASSIGN_OR_RETURN(layers::LayerGraph graph, model->build(complete));
  RETURN_IF_ERROR(CheckNormalisation(options, graph));
  return graph;
}

}  // namespace colonnade::models
