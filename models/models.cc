#include "models/models.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"

namespace colonnade::models {
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
      {.name = "alexnet",
       .description = "AlexNet of one column (Krizhevsky 2014), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .build = Alexnet},
      // The paper, section 3.1, divides the rate by 10 whenever the validation accuracy stops improving, which no policy
      // does.
      {.name = "vgg11",
       .description = "VGG A (Simonyan, Zisserman 2014), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .build = Vgg11},
      {.name = "vgg16",
       .description = "VGG D (Simonyan, Zisserman 2014), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .build = Vgg16},
      {.name = "vgg16_bn",
       .description = "VGG D with batch normalisation, torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 5e-4,
       .build = Vgg16Bn},
      {.name = "googlenet",
       .description = "GoogLeNet (Szegedy et al. 2014)",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 2e-4,
       .has_auxiliary_heads = true,
       .build = Googlenet},
      {.name = "googlenet_bn",
       .description = "GoogLeNet with batch normalisation, torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.01,
       .weight_decay = 2e-4,
       .has_auxiliary_heads = true,
       .build = GooglenetBn},
      {.name = "resnet18",
       .description = "ResNet-18 (He et al. 2015), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet18},
      {.name = "resnet34",
       .description = "ResNet-34 (He et al. 2015), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet34},
      {.name = "resnet50",
       .description = "ResNet-50 (He et al. 2015), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet50},
      {.name = "resnet101",
       .description = "ResNet-101 (He et al. 2015), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet101},
      {.name = "resnet152",
       .description = "ResNet-152 (He et al. 2015), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet152},
      {.name = "resnext50_32x4d",
       .description = "ResNeXt-50 32x4d (Xie et al. 2016), torchvision's names",
       .input_size = 224,
       .classes = 1000,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnext50_32x4d},
      {.name = "resnet20",
       .description = "ResNet-20 for 32x32 (He et al. 2015, section 4.2)",
       .input_size = 32,
       .classes = 10,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet20},
      {.name = "resnet56",
       .description = "ResNet-56 for 32x32 (He et al. 2015, section 4.2)",
       .input_size = 32,
       .classes = 10,
       .learning_rate = 0.1,
       .weight_decay = 1e-4,
       .build = Resnet56},
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
                                                       program::DidYouMean(", ", name, names), absl::StrJoin(names, ", ")));
}

absl::StatusOr<layers::LayerGraph> BuildModel(absl::string_view name, const ModelOptions& options) {
  ASSIGN_OR_RETURN(const ModelInfo* model, FindModel(name));
  if (!(options.width > 0) || options.width > 64) {
    return absl::FailedPreconditionError(
        absl::StrFormat("width: expected a number above 0 and up to 64, found %g", options.width));
  }
  if (options.auxiliary_heads && !model->has_auxiliary_heads) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s has no auxiliary heads; googlenet and googlenet_bn have", name));
  }
  ModelOptions complete = options;
  if (complete.input_channels == 0) complete.input_channels = model->input_channels;
  if (complete.input_size == 0) complete.input_size = model->input_size;
  if (complete.classes == 0) complete.classes = model->classes;
  return model->build(complete);
}

}  // namespace colonnade::models
