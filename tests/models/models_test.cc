#include "models/models.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/verify.h"
#include "tests/models/built.h"

namespace colonnade::models {
namespace {

using ::testing::HasSubstr;

// Of the last three, num_params in torchvision's documentation of AlexNet_Weights, VGG11_Weights and VGG16_Weights
// (IMAGENET1K_V1).
TEST(Models, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(Built("alexnet2012").ParameterCount(), 60'965'224);
  EXPECT_EQ(Built("lenet").ParameterCount(), 61'706);
  EXPECT_EQ(Built("two_column").ParameterCount(), 320 + 9'280 + 36'928 + 18'496 + 32'896 + 1'290);
  EXPECT_EQ(Built("alexnet").ParameterCount(), 61'100'840);
  EXPECT_EQ(Built("vgg11").ParameterCount(), 132'863'336);
  EXPECT_EQ(Built("vgg16").ParameterCount(), 138'357'544);
}

// num_params in torchvision's documentation of VGG16_BN_Weights, GoogLeNet_Weights, ResNet18_Weights … and
// ResNeXt50_32X4D_Weights.
TEST(Models, WithBatchNormHaveTorchvisionsNumberOfParameters) {
  EXPECT_EQ(Built("vgg16_bn").ParameterCount(), 138'365'992);
  EXPECT_EQ(Built("googlenet_bn").ParameterCount(), 6'624'904);
  EXPECT_EQ(Built("resnet18").ParameterCount(), 11'689'512);
  EXPECT_EQ(Built("resnet34").ParameterCount(), 21'797'672);
  EXPECT_EQ(Built("resnet50").ParameterCount(), 25'557'032);
  EXPECT_EQ(Built("resnet101").ParameterCount(), 44'549'160);
  EXPECT_EQ(Built("resnet152").ParameterCount(), 60'192'808);
  EXPECT_EQ(Built("resnext50_32x4d").ParameterCount(), 25'028'904);
}

// He et al. 2015, section 4.2, with n blocks in each of three stages of c = 16, 32 and 64 channels: 2n convolutions of 3x3
// without biases, of which the first of the second and third stage reads c/2 channels, and for each the 2c parameters of
// its normalisation; before them a convolution of the image, behind them a fully connected layer.
int64_t ParametersOfSection42(int64_t n) {
  int64_t count = 3 * 16 * 9 + 2 * 16 + (64 * 10 + 10);
  for (int64_t c : {16, 32, 64}) {
    const int64_t first = c == 16 ? c : c / 2;
    count += 9 * c * (first + (2 * n - 1) * c) + 2 * n * 2 * c;
  }
  return count;
}

TEST(Models, ForSmallImagesHaveTheNumberOfParametersOfTheFormula) {
  EXPECT_EQ(ParametersOfSection42(3), 269'722);
  EXPECT_EQ(ParametersOfSection42(9), 853'018);
  EXPECT_EQ(Built("resnet20").ParameterCount(), 269'722);
  EXPECT_EQ(Built("resnet56").ParameterCount(), 853'018);
}

// The sum over the layers of bvlc_googlenet/deploy.prototxt, which has no auxiliary heads: 6,990,272 weights and 8,280
// biases.
TEST(Models, GooglenetHasTheNumberOfParametersOfBvlcs) { EXPECT_EQ(Built("googlenet").ParameterCount(), 6'998'552); }

// The sum over the layers of bvlc_googlenet/train_val.prototxt, whose heads are those of section 5 of the paper: 128
// channels of 4x4, 1024 features, 1000 classes, behind 512 and 528 channels.
TEST(Models, GooglenetsHeadsHaveTheNumberOfParametersOfBvlcs) {
  EXPECT_EQ(Built("googlenet", {.auxiliary_heads = true}).ParameterCount(), 13'378'280);
}

// That of torchvision's GoogLeNet(), whose aux_logits are on.
TEST(Models, GooglenetBnsHeadsHaveTheNumberOfParametersOfTorchvisions) {
  EXPECT_EQ(Built("googlenet_bn", {.auxiliary_heads = true}).ParameterCount(), 13'004'888);
}

TEST(Models, LossesOfHeadsWeighThreeTenths) {
  for (const char* name : {"googlenet", "googlenet_bn"}) {
    std::vector<double> weights;
    for (const layers::LayerNode& node : Built(name, {.auxiliary_heads = true}).nodes) {
      if (const auto* loss = std::get_if<layers::SoftmaxCrossEntropy>(&node.layer)) weights.push_back(loss->weight);
    }
    EXPECT_THAT(weights, ::testing::ElementsAre(0.3, 0.3, 1)) << name;
  }
}

TEST(Models, HeadsAreRefusedWhereThereAreNone) {
  EXPECT_THAT(std::string(BuildModel("resnet18", {.auxiliary_heads = true}).status().message()),
              ::testing::HasSubstr("resnet18 has no auxiliary heads; googlenet and googlenet_bn have"));
}

TEST(Models, EveryLossIsSmoothed) {
  for (const ModelInfo& model : AllModels()) {
    const absl::StatusOr<layers::LayerGraph> graph =
        BuildModel(model.name, {.auxiliary_heads = model.has_auxiliary_heads, .label_smoothing = 0.1});
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const layers::LayerNode& node : graph->nodes) {
      const auto* loss = std::get_if<layers::SoftmaxCrossEntropy>(&node.layer);
      EXPECT_TRUE(loss == nullptr || loss->label_smoothing == 0.1) << model.name << " " << node.name;
    }
  }
}

// GFLOPS in torchvision's documentation, which counts a multiplication and its addition as one and gives two decimals.
TEST(Models, HaveThePublishedNumberOfMultiplications) {
  for (const auto& [name, giga] : std::map<std::string, double>{{"alexnet", 0.71},
                                                                {"vgg11", 7.61},
                                                                {"vgg16", 15.47},
                                                                {"vgg16_bn", 15.47},
                                                                {"googlenet_bn", 1.50},
                                                                {"resnet18", 1.81},
                                                                {"resnet34", 3.66},
                                                                {"resnet50", 4.09},
                                                                {"resnet101", 7.80},
                                                                {"resnet152", 11.51},
                                                                {"resnext50_32x4d", 4.23}}) {
    EXPECT_NEAR(static_cast<double>(Built(name).ForwardFlops(1)) / 2e9, giga, 0.005) << name;
  }
}

std::map<std::string, program::Shape> ParameterShapes(const layers::LayerGraph& graph) {
  std::map<std::string, program::Shape> shapes;
  for (const layers::LayerNode& node : graph.nodes) {
    for (const layers::ParameterSpec& p : node.parameters) shapes[p.name] = p.shape;
  }
  return shapes;
}

TEST(Models, AlexnetHasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> expected = {
      {"features.0.weight", {64, 3, 11, 11}},   {"features.0.bias", {64}},
      {"features.3.weight", {192, 64, 5, 5}},   {"features.3.bias", {192}},
      {"features.6.weight", {384, 192, 3, 3}},  {"features.6.bias", {384}},
      {"features.8.weight", {256, 384, 3, 3}},  {"features.8.bias", {256}},
      {"features.10.weight", {256, 256, 3, 3}}, {"features.10.bias", {256}},
      {"classifier.1.weight", {4096, 9216}},    {"classifier.1.bias", {4096}},
      {"classifier.4.weight", {4096, 4096}},    {"classifier.4.bias", {4096}},
      {"classifier.6.weight", {1000, 4096}},    {"classifier.6.bias", {1000}}};
  EXPECT_EQ(ParameterShapes(Built("alexnet")), expected);
}

// torchvision/models/vgg.py: make_layers counts convolutions, ReLUs and poolings alike.
TEST(Models, VggHasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> expected = {
      {"features.0.weight", {64, 3, 3, 3}},     {"features.0.bias", {64}},
      {"features.3.weight", {128, 64, 3, 3}},   {"features.3.bias", {128}},
      {"features.6.weight", {256, 128, 3, 3}},  {"features.6.bias", {256}},
      {"features.8.weight", {256, 256, 3, 3}},  {"features.8.bias", {256}},
      {"features.11.weight", {512, 256, 3, 3}}, {"features.11.bias", {512}},
      {"features.13.weight", {512, 512, 3, 3}}, {"features.13.bias", {512}},
      {"features.16.weight", {512, 512, 3, 3}}, {"features.16.bias", {512}},
      {"features.18.weight", {512, 512, 3, 3}}, {"features.18.bias", {512}},
      {"classifier.0.weight", {4096, 25088}},   {"classifier.0.bias", {4096}},
      {"classifier.3.weight", {4096, 4096}},    {"classifier.3.bias", {4096}},
      {"classifier.6.weight", {1000, 4096}},    {"classifier.6.bias", {1000}}};
  EXPECT_EQ(ParameterShapes(Built("vgg11")), expected);
  std::vector<std::string> layers;
  for (const layers::LayerNode& node : Built("vgg16").nodes) {
    if (!node.parameters.empty()) layers.push_back(node.name);
  }
  EXPECT_THAT(layers,
              ::testing::ElementsAre("features.0", "features.2", "features.5", "features.7", "features.10", "features.12",
                                     "features.14", "features.17", "features.19", "features.21", "features.24",
                                     "features.26", "features.28", "classifier.0", "classifier.3", "classifier.6"));
}

TEST(Models, VggHalvesItsImageFiveTimesAndRoundsDown) {
  for (const auto& [size, last] : std::map<int64_t, int64_t>{{32, 1}, {63, 1}, {64, 2}, {224, 7}, {256, 8}}) {
    for (const char* name : {"vgg11", "vgg16"}) {
      EXPECT_EQ(SampleShapes(Built(name, {.input_size = size}))["flatten"], (program::Shape{512 * last * last}))
          << name << " " << size;
    }
  }
  const absl::Status small = BuildModel("vgg16", {.input_size = 31}).status();
  for (const char* part : {"\"vgg16\"", "MaxPool \"features.30\"", "expected an image of at least 2x2", "[512,1,1]"}) {
    EXPECT_THAT(std::string(small.message()), HasSubstr(part));
  }
}

TEST(Models, Alexnet2012HasThePapersImages) {
  const layers::LayerGraph graph = Built("alexnet2012");
  std::map<std::string, program::Shape> shapes;
  for (const layers::LayerNode& node : graph.nodes) shapes[node.name] = node.sample_shape;
  EXPECT_EQ(shapes["conv1"], (program::Shape{96, 55, 55}));
  EXPECT_EQ(shapes["conv2"], (program::Shape{256, 27, 27}));
  EXPECT_EQ(shapes["conv5"], (program::Shape{256, 13, 13}));
  EXPECT_EQ(shapes["flatten"], (program::Shape{9216}));
}

TEST(Models, SizeWidthAndClassesAreOptions) {
  const layers::LayerGraph graph = Built("alexnet2012", {.input_size = 67, .classes = 7, .width = 0.25, .dropout = false});
  EXPECT_EQ(graph.classes(), 7);
  EXPECT_EQ(graph.nodes[1].sample_shape[0], 24);
  for (const layers::LayerNode& node : graph.nodes) EXPECT_FALSE(std::holds_alternative<layers::Dropout>(node.layer));
}

TEST(Models, AnUnknownNameIsAUsageErrorThatNamesTheNearest) {
  const absl::Status status = BuildModel("alexnet2021", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"alexnet2012\"?"));
  EXPECT_EQ(BuildModel("lenet", {.width = 0}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Models, AlexnetAndLenetHaveTheirPapersImages) {
  auto shapes = SampleShapes(Built("alexnet"));
  EXPECT_EQ(shapes["features.0"], (program::Shape{64, 55, 55}));
  EXPECT_EQ(shapes["features.3"], (program::Shape{192, 27, 27}));
  EXPECT_EQ(shapes["features.10"], (program::Shape{256, 13, 13}));
  EXPECT_EQ(shapes["features.12"], (program::Shape{256, 6, 6}));
  shapes = SampleShapes(Built("lenet"));
  EXPECT_EQ(shapes["conv1"], (program::Shape{6, 28, 28}));
  EXPECT_EQ(shapes["conv3"], (program::Shape{16, 10, 10}));
  EXPECT_EQ(shapes["conv5"], (program::Shape{120, 1, 1}));
}

// Krizhevsky et al. 2012, section 5.
TEST(Models, Alexnet2012StartsAsThePaperSays) {
  using Kind = program::Initializer::Kind;
  std::map<std::string, double> biases;
  for (const layers::LayerNode& node : Built("alexnet2012").nodes) {
    if (node.parameters.empty()) continue;
    ASSERT_EQ(node.parameters.size(), 2u);
    EXPECT_EQ(node.parameters[0].initializer, (program::Initializer{Kind::kGaussian, 0.01})) << node.name;
    EXPECT_EQ(node.parameters[1].initializer.kind, Kind::kConstant);
    biases[node.name] = node.parameters[1].initializer.value;
  }
  EXPECT_EQ(biases,
            (std::map<std::string, double>{
                {"conv1", 0}, {"conv2", 1}, {"conv3", 0}, {"conv4", 1}, {"conv5", 1}, {"fc6", 1}, {"fc7", 1}, {"fc8", 0}}));
}

TEST(Models, GroupsAreTheColumnsOfThePaper) {
  for (const char* name : {"alexnet2012", "two_column"}) {
    std::map<std::string, int64_t> groups;
    for (const layers::LayerNode& node : Built(name).nodes) {
      if (const auto* conv = std::get_if<layers::Conv2d>(&node.layer)) groups[node.name] = conv->groups;
      if (const auto* lrn = std::get_if<layers::Lrn>(&node.layer)) {
        EXPECT_EQ(lrn->groups, 2) << node.name;
      }
    }
    EXPECT_EQ(groups["conv1"], 1) << name;
    EXPECT_EQ(groups["conv2"], 2) << name;
    EXPECT_EQ(groups["conv3"], 1) << name;
    EXPECT_EQ(groups["conv4"], 2) << name;
  }
}

TEST(Models, DropoutIsLeftOutWithoutAnyOtherChange) {
  for (const ModelInfo& model : AllModels()) {
    std::vector<std::string> with, without;
    for (const auto& node : Built(model.name).nodes) {
      for (const layers::ParameterSpec& p : node.parameters) with.push_back(p.name);
    }
    for (const auto& node : Built(model.name, {.dropout = false}).nodes) {
      EXPECT_FALSE(std::holds_alternative<layers::Dropout>(node.layer)) << model.name;
      for (const layers::ParameterSpec& p : node.parameters) without.push_back(p.name);
    }
    EXPECT_EQ(with, without) << model.name;
  }
}

TEST(Models, EveryModelIsBuiltAtEveryWidthWithChannelsThatDivideByEight) {
  for (const ModelInfo& model : AllModels()) {
    for (double width : {0.01, 0.125, 0.3, 0.5, 2.0}) {
      const layers::LayerGraph graph = Built(model.name, {.classes = 8, .width = width});
      for (const layers::LayerNode& node : graph.nodes) {
        if (!node.parameters.empty()) {
          EXPECT_EQ(node.sample_shape[0] % 8, 0) << model.name << " " << node.name << " at " << width;
        }
      }
    }
  }
}

TEST(Models, WidthRoundsToEightsButForOne) {
  EXPECT_EQ(Widen(6, 1.0), 6);
  EXPECT_EQ(Widen(6, 0.5), 8);
  EXPECT_EQ(Widen(96, 0.25), 24);
  EXPECT_EQ(Widen(100, 0.5), 48);
  EXPECT_EQ(Widen(256, 1.01), 256);
  EXPECT_EQ(Widen(256, 2), 512);
}

TEST(Models, InputChannelsAreAnOption) {
  EXPECT_EQ(Built("lenet", {.input_channels = 3}).nodes[0].sample_shape, (program::Shape{3, 28, 28}));
  EXPECT_EQ(Built("lenet", {.input_channels = 3}).ParameterCount(), 61'706 + 2 * 6 * 25);
}

TEST(Models, OptionsThatDoNotFitAreErrorsThatNameTheLayer) {
  const absl::Status small = BuildModel("alexnet", {.input_size = 32}).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"\"alexnet\"", "MaxPool \"features.12\"", "expected an image of at least 3x3", "[256,1,1]"}) {
    EXPECT_THAT(std::string(small.message()), HasSubstr(part));
  }
  EXPECT_THAT(std::string(BuildModel("lenet", {.classes = -1}).status().message()), HasSubstr("\"fc7\""));
  EXPECT_THAT(std::string(BuildModel("lenet", {.input_size = -1}).status().message()), HasSubstr("positive extents"));
  for (double width : {-1.0, 65.0, std::nan("")}) {
    EXPECT_EQ(BuildModel("lenet", {.width = width}).status().code(), absl::StatusCode::kFailedPrecondition) << width;
  }
}

TEST(Models, NamesAndOwnShapesAreThoseOfTheList) {
  std::vector<std::string> names;
  for (const ModelInfo& model : AllModels()) {
    names.push_back(model.name);
    const layers::LayerGraph graph = Built(model.name);
    EXPECT_EQ(graph.name, model.name);
    EXPECT_EQ(graph.nodes[0].sample_shape, (program::Shape{model.input_channels, model.input_size, model.input_size}));
    EXPECT_EQ(graph.classes(), model.classes);
    EXPECT_FALSE(model.description.empty());
    EXPECT_GT(model.learning_rate, 0);
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("lenet", "two_column", "alexnet2012", "alexnet", "vgg11", "vgg16", "vgg16_bn",
                                              "googlenet", "googlenet_bn", "resnet18", "resnet34", "resnet50", "resnet101",
                                              "resnet152", "resnext50_32x4d", "resnet20", "resnet56"));
  // Krizhevsky et al. 2012, section 5; Simonyan & Zisserman 2014, section 3.1.
  for (const char* name : {"alexnet2012", "vgg11", "vgg16"}) {
    const ModelInfo& published = **FindModel(name);
    EXPECT_EQ(published.learning_rate, 0.01) << name;
    EXPECT_EQ(published.momentum, 0.9) << name;
    EXPECT_EQ(published.weight_decay, 5e-4) << name;
  }
  // He et al. 2015, sections 3.4 and 4.2; Xie et al. 2016, section 4.
  for (const char* name : {"resnet18", "resnet50", "resnet152", "resnext50_32x4d", "resnet20", "resnet56"}) {
    const ModelInfo& published = **FindModel(name);
    EXPECT_EQ(published.learning_rate, 0.1) << name;
    EXPECT_EQ(published.momentum, 0.9) << name;
    EXPECT_EQ(published.weight_decay, 1e-4) << name;
  }
}

// A layer whose sizes do not divide is replicated by the named plans; no model is refused by them.
TEST(Models, EveryModelIsSpreadOver2And4And8DevicesByEveryNamedPlan) {
  for (const ModelInfo& model : AllModels()) {
    const layers::LayerGraph graph = Built(model.name);
    for (const char* name : {"data", "model", "hybrid", "owt"}) {
      for (int devices : {2, 4, 8}) {
        const absl::Status status = partition::NamedPlan(name, graph, {.devices = devices, .global_batch = 64}).status();
        EXPECT_TRUE(status.ok()) << model.name << " " << name << " over " << devices << ": " << status;
      }
    }
  }
}

// The smallest image and narrow layers; all sizes divide by 8, so that no layer is left whole.
TEST(Models, VggIsLoweredWithoutReplicatedLayersOn1And2And4And8Devices) {
  for (const char* name : {"vgg11", "vgg16"}) {
    const layers::LayerGraph graph = Built(name, {.input_size = 32, .classes = 8, .width = 0.125});
    for (const auto& [plan_name, all_devices] : std::map<std::string, std::vector<int>>{
             {"single", {1}}, {"data", {2, 4, 8}}, {"model", {2, 4, 8}}, {"hybrid", {2, 4, 8}}, {"owt", {2, 4, 8}}}) {
      for (int devices : all_devices) {
        const absl::StatusOr<partition::Plan> plan =
            partition::NamedPlan(plan_name, graph, {.devices = devices, .global_batch = 16});
        ASSERT_TRUE(plan.ok()) << name << " " << plan_name << " " << devices << ": " << plan.status();
        EXPECT_THAT(plan->notes, ::testing::IsEmpty()) << name << " " << plan_name << " " << devices;
        for (program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
          const absl::StatusOr<program::Program> program =
              partition::Lower(graph, *plan, {.mode = mode, .global_batch = 16});
          ASSERT_TRUE(program.ok()) << name << " " << plan_name << " " << devices << ": " << program.status();
          EXPECT_TRUE(program::Verify(*program).ok()) << name << " " << plan_name << " " << devices;
        }
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::models
