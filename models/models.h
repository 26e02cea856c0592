// The networks that Colonnade brings, as functions that build layer graphs. They know nothing of devices or plans.
//
//   lenet        LeCun et al. 1998, LeNet-5, with ReLU and max pooling; 28x28
//   two_column   a small network of two columns with a cross connection at conv3; 8x8 digits
//   alexnet2012  Krizhevsky et al. 2012: two columns as grouped convolutions, LRN; 227x227
//   alexnet      Krizhevsky 2014, one column, with torchvision's layer names; 224x224
//   vgg11, vgg16, vgg16_bn
//                Simonyan & Zisserman 2014, configurations A and D, with torchvision's layer names; 224x224
//   googlenet    Szegedy et al. 2014, with its auxiliary heads as an option; 224x224
//   googlenet_bn the same modules, normalised, as torchvision has them, with its layer names; 224x224
//   resnet18, resnet34, resnet50, resnet101, resnet152, resnext50_32x4d
//                He et al. 2015 and Xie et al. 2016, with torchvision's layer names; 224x224
//   resnet20, resnet56
//                He et al. 2015, section 4.2, option A; 32x32
#ifndef COLONNADE_MODELS_MODELS_H_
#define COLONNADE_MODELS_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/graph.h"

namespace colonnade::models {

// What a network may be asked to be instead of itself; 0 leaves the model's own.
struct ModelOptions {
  int64_t input_channels = 0;
  int64_t input_size = 0;  // rows and columns of the image
  int64_t classes = 0;
  double width = 1.0;               // channels and features times this, rounded to a multiple of 8
  bool dropout = true;              // false: without dropout layers
  int64_t samples_per_group = 0;    // of batch normalisation; 0: the whole global batch
  bool zero_init_residual = false;  // the last normalisation of each residual branch begins with weight 0
  bool auxiliary_heads = false;     // of GoogLeNets: two more classifiers in training, each with a loss of weight 0.3
  double label_smoothing = 0;       // of every loss, in [0, 1)
};

// A network's own shape, and what `train` does without flags: the rate, momentum and decay of its publication, but not its
// schedule: lenet and two_column alone have one here, of their own.
struct ModelInfo {
  std::string name;
  std::string description;
  int64_t input_channels = 3, input_size = 0, classes = 0;
  double learning_rate = 0.01, momentum = 0.9, weight_decay = 0;
  std::string lr_policy = "constant";  // as --lr-policy takes it; N counts steps of the run
  bool shifts_images = false;          // its recipe moves training images by up to a pixel
  bool has_auxiliary_heads = false;
  absl::StatusOr<layers::LayerGraph> (*build)(const ModelOptions&) = nullptr;  // null: a file's (tools/network_file.h)
};

const std::vector<ModelInfo>& AllModels();

// Return the model of that name, or its network. FailedPrecondition names the models there are, and the nearest name, where
// there is none, and says what of the options the model cannot be: a message that begins with "samples_per_group: " or
// "zero_init_residual: " is of a network without the normalisations that these change.
absl::StatusOr<const ModelInfo*> FindModel(absl::string_view name);
absl::StatusOr<layers::LayerGraph> BuildModel(absl::string_view name, const ModelOptions& options);

}  // namespace colonnade::models

#endif  // COLONNADE_MODELS_MODELS_H_
