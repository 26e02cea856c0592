// Networks that normalise or branch: residual networks, both GoogLeNets and vgg16_bn.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/models/built.h"

namespace colonnade::models {
namespace {

// What training on one device keeps, by name: parameters and statistics. torchvision's state_dict has, beside them, a count
// num_batches_tracked of each normalisation, which its momentum of 0.1 does not read.
std::map<std::string, program::Shape> StateDict(const std::string& name) {
  const layers::LayerGraph graph = Built(name);
  std::map<std::string, program::Shape> shapes;
  const absl::StatusOr<partition::Plan> plan = partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 2});
  EXPECT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<program::Program> program = partition::Lower(graph, *plan, {.global_batch = 2});
  EXPECT_TRUE(program.ok()) << program.status();
  for (const program::Parameter& parameter : program->parameters) shapes[parameter.name] = parameter.shape;
  return shapes;
}

// The names that begin with `prefix`, without it, each with its shape.
std::map<std::string, program::Shape> Under(const std::map<std::string, program::Shape>& shapes, const std::string& prefix) {
  std::map<std::string, program::Shape> found;
  for (const auto& [name, shape] : shapes) {
    if (name.rfind(prefix, 0) == 0) found[name.substr(prefix.size())] = shape;
  }
  return found;
}

// Adds the four tensors of a normalisation to `expected`.
void AddNorm(const std::string& name, int64_t channels, std::map<std::string, program::Shape>& expected) {
  for (const char* of : {".weight", ".bias", ".running_mean", ".running_var"}) expected[name + of] = {channels};
}

// torchvision/models/resnet.py: BasicBlock.
TEST(Models, Resnet18HasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> state = StateDict("resnet18");
  EXPECT_EQ(state.size(), 62u + 2 * 20u);  // of 20 convolutions, 20 normalisations with their statistics, and fc
  EXPECT_EQ(state.at("conv1.weight"), (program::Shape{64, 3, 7, 7}));
  EXPECT_EQ(state.at("fc.weight"), (program::Shape{1000, 512}));
  EXPECT_EQ(state.at("fc.bias"), (program::Shape{1000}));
  std::map<std::string, program::Shape> stem,
      plain = {{"conv1.weight", {64, 64, 3, 3}}, {"conv2.weight", {64, 64, 3, 3}}},
      shrinking = {
          {"conv1.weight", {128, 64, 3, 3}}, {"conv2.weight", {128, 128, 3, 3}}, {"downsample.0.weight", {128, 64, 1, 1}}};
  AddNorm("", 64, stem);
  for (const char* norm : {"bn1", "bn2"}) AddNorm(norm, 64, plain);
  for (const char* norm : {"bn1", "bn2", "downsample.1"}) AddNorm(norm, 128, shrinking);
  EXPECT_EQ(Under(state, "bn1"), stem);
  for (const char* block : {"layer1.0.", "layer1.1."}) EXPECT_EQ(Under(state, block), plain) << block;
  EXPECT_EQ(Under(state, "layer2.0."), shrinking);
  EXPECT_EQ(Under(state, "layer4.2."), (std::map<std::string, program::Shape>{})) << "two blocks in each stage";
}

// torchvision/models/resnet.py: Bottleneck. The first block widens, so that it too has a convolution in its shortcut.
TEST(Models, Resnet50HasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> state = StateDict("resnet50");
  EXPECT_EQ(state.size(), 161u + 2 * 53u);  // of 53 convolutions, 53 normalisations with their statistics, and fc
  std::map<std::string, program::Shape> first = {{"conv1.weight", {64, 64, 1, 1}},
                                                 {"conv2.weight", {64, 64, 3, 3}},
                                                 {"conv3.weight", {256, 64, 1, 1}},
                                                 {"downsample.0.weight", {256, 64, 1, 1}}},
                                        second = {{"conv1.weight", {64, 256, 1, 1}},
                                                  {"conv2.weight", {64, 64, 3, 3}},
                                                  {"conv3.weight", {256, 64, 1, 1}}},
                                        shrinking = {{"conv1.weight", {128, 256, 1, 1}},
                                                     {"conv2.weight", {128, 128, 3, 3}},
                                                     {"conv3.weight", {512, 128, 1, 1}},
                                                     {"downsample.0.weight", {512, 256, 1, 1}}};
  for (auto* block : {&first, &second}) {
    AddNorm("bn1", 64, *block);
    AddNorm("bn2", 64, *block);
    AddNorm("bn3", 256, *block);
  }
  AddNorm("downsample.1", 256, first);
  AddNorm("bn1", 128, shrinking);
  AddNorm("bn2", 128, shrinking);
  AddNorm("bn3", 512, shrinking);
  AddNorm("downsample.1", 512, shrinking);
  EXPECT_EQ(Under(state, "layer1.0."), first);
  EXPECT_EQ(Under(state, "layer1.1."), second);
  EXPECT_EQ(Under(state, "layer2.0."), shrinking);
  EXPECT_EQ(state.at("fc.weight"), (program::Shape{1000, 2048}));
}

// In vgg16_bn, make_layers counts normalisations too.
TEST(Models, Vgg16BnHasTorchvisionsNames) {
  std::vector<std::string> convolutions, norms;
  for (const layers::LayerNode& node : Built("vgg16_bn").nodes) {
    if (std::holds_alternative<layers::Conv2d>(node.layer)) convolutions.push_back(node.name.substr(9));
    if (std::holds_alternative<layers::BatchNorm>(node.layer)) norms.push_back(node.name.substr(9));
  }
  EXPECT_THAT(convolutions,
              ::testing::ElementsAre("0", "3", "7", "10", "14", "17", "20", "24", "27", "30", "34", "37", "40"));
  EXPECT_THAT(norms, ::testing::ElementsAre("1", "4", "8", "11", "15", "18", "21", "25", "28", "31", "35", "38", "41"));
}

TEST(Models, Resnet50HasThePapersImages) {
  auto shapes = SampleShapes(Built("resnet50"));
  EXPECT_EQ(shapes["conv1"], (program::Shape{64, 112, 112}));
  EXPECT_EQ(shapes["layer1.2.relu"], (program::Shape{256, 56, 56}));
  EXPECT_EQ(shapes["layer2.3.relu"], (program::Shape{512, 28, 28}));
  EXPECT_EQ(shapes["layer3.5.relu"], (program::Shape{1024, 14, 14}));
  EXPECT_EQ(shapes["layer4.2.relu"], (program::Shape{2048, 7, 7}));
  EXPECT_EQ(shapes["avgpool"], (program::Shape{2048, 1, 1}));
}

// Szegedy et al. 2014, table 1. Poolings round up: rounding down would leave 55, 27, 13 and 6 rows.
TEST(Models, GooglenetHasThePapersImages) {
  auto shapes = SampleShapes(Built("googlenet"));
  EXPECT_EQ(shapes["conv1"], (program::Shape{64, 112, 112}));
  EXPECT_EQ(shapes["pool1"], (program::Shape{64, 56, 56}));
  EXPECT_EQ(shapes["conv2"], (program::Shape{192, 56, 56}));
  EXPECT_EQ(shapes["pool2"], (program::Shape{192, 28, 28}));
  EXPECT_EQ(shapes["inception3a.concat"], (program::Shape{256, 28, 28}));
  EXPECT_EQ(shapes["inception3b.concat"], (program::Shape{480, 28, 28}));
  EXPECT_EQ(shapes["inception4a.concat"], (program::Shape{512, 14, 14}));
  EXPECT_EQ(shapes["inception4e.concat"], (program::Shape{832, 14, 14}));
  EXPECT_EQ(shapes["pool4"], (program::Shape{832, 7, 7}));
  EXPECT_EQ(shapes["inception5b.concat"], (program::Shape{1024, 7, 7}));
  EXPECT_EQ(shapes["pool5"], (program::Shape{1024, 1, 1}));
}

// torchvision/models/googlenet.py; its "5x5" convolutions are 3x3.
TEST(Models, GooglenetBnHasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> state = StateDict("googlenet_bn");
  EXPECT_EQ(state.size(), 57u + 4 * 57u + 2);  // of 57 convolutions, their normalisations, and fc
  std::map<std::string, program::Shape> module = {
      {"branch1.conv.weight", {64, 192, 1, 1}},   {"branch2.0.conv.weight", {96, 192, 1, 1}},
      {"branch2.1.conv.weight", {128, 96, 3, 3}}, {"branch3.0.conv.weight", {16, 192, 1, 1}},
      {"branch3.1.conv.weight", {32, 16, 3, 3}},  {"branch4.1.conv.weight", {32, 192, 1, 1}}};
  for (const auto& [branch, channels] :
       std::map<std::string, int64_t>{{"1", 64}, {"2.0", 96}, {"2.1", 128}, {"3.0", 16}, {"3.1", 32}, {"4.1", 32}}) {
    AddNorm(absl::StrCat("branch", branch, ".bn"), channels, module);
  }
  EXPECT_EQ(Under(state, "inception3a."), module);
  EXPECT_EQ(state.at("conv1.conv.weight"), (program::Shape{64, 3, 7, 7}));
  EXPECT_EQ(state.at("conv2.conv.weight"), (program::Shape{64, 64, 1, 1}));
  EXPECT_EQ(state.at("conv3.conv.weight"), (program::Shape{192, 64, 3, 3}));
  EXPECT_EQ(state.at("fc.weight"), (program::Shape{1000, 1024}));
}

// Where torchvision has other numbers than the paper; no LRN, dropout of 0.2 before fc.
TEST(Models, GooglenetBnHasTorchvisionsPoolingAndDropout) {
  std::map<std::string, layers::MaxPool> pools;
  std::map<std::string, double> dropouts;
  for (const layers::LayerNode& node : Built("googlenet_bn", {.auxiliary_heads = true}).nodes) {
    EXPECT_FALSE(std::holds_alternative<layers::Lrn>(node.layer)) << node.name;
    if (const auto* pool = std::get_if<layers::MaxPool>(&node.layer)) pools[node.name] = *pool;
    if (const auto* dropout = std::get_if<layers::Dropout>(&node.layer)) dropouts[node.name] = dropout->rate;
  }
  for (const char* name : {"pool1", "pool2", "pool3"}) {
    EXPECT_EQ(pools.at(name), (layers::MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true})) << name;
  }
  EXPECT_EQ(pools.at("pool4"), (layers::MaxPool{.kernel = 2, .stride = 2, .ceil_mode = true}));
  EXPECT_EQ(dropouts, (std::map<std::string, double>{{"aux1.dropout", 0.7}, {"aux2.dropout", 0.7}, {"dropout", 0.2}}));
}

// Of images of 4n rows the windows are those of adaptive pooling to 4x4; of all others they reach the last row.
TEST(Models, GooglenetBnsHeadsPoolTo4x4) {
  for (const auto& [size, rows] :
       std::map<int64_t, int64_t>{{63, 4}, {64, 4}, {79, 5}, {96, 6}, {111, 7}, {128, 8}, {224, 14}, {256, 16}, {299, 18}}) {
    const layers::LayerGraph graph = Built("googlenet_bn", {.input_size = size, .auxiliary_heads = true});
    auto shapes = SampleShapes(graph);
    EXPECT_EQ(shapes["inception4a.concat"], (program::Shape{512, rows, rows})) << size;
    for (const layers::LayerNode& node : graph.nodes) {
      if (node.name != "aux1.pool" && node.name != "aux2.pool") continue;
      const auto& pool = std::get<layers::AvgPool>(node.layer);
      EXPECT_EQ(node.sample_shape, (program::Shape{node.name == "aux1.pool" ? 512 : 528, 4, 4})) << size;
      EXPECT_EQ(3 * pool.stride + pool.kernel, rows) << size << " " << node.name;
      EXPECT_EQ(pool.stride, rows / 4) << size << " " << node.name;
      EXPECT_EQ(pool.pad, 0);
    }
  }
  const absl::Status small = BuildModel("googlenet_bn", {.input_size = 62, .auxiliary_heads = true}).status();
  EXPECT_THAT(std::string(small.message()), ::testing::HasSubstr("expected an image of at least 4x4"));
}

// The shortcut takes every second row and column, and zeros for the channels that it lacks.
TEST(Models, Resnet20HasThePapersImagesAndShortcuts) {
  const layers::LayerGraph graph = Built("resnet20");
  auto shapes = SampleShapes(graph);
  EXPECT_EQ(shapes["layer1.2.relu"], (program::Shape{16, 32, 32}));
  EXPECT_EQ(shapes["layer2.0.shortcut"], (program::Shape{16, 16, 16}));
  EXPECT_EQ(shapes["layer2.2.relu"], (program::Shape{32, 16, 16}));
  EXPECT_EQ(shapes["layer3.2.relu"], (program::Shape{64, 8, 8}));
  std::vector<std::string> narrow;
  int weighted = 0;
  for (const layers::LayerNode& node : graph.nodes) {
    weighted +=
        std::holds_alternative<layers::Conv2d>(node.layer) || std::holds_alternative<layers::FullyConnected>(node.layer);
    if (std::holds_alternative<layers::AddNarrow>(node.layer)) narrow.push_back(node.name);
    if (node.name == "layer2.0.shortcut") {
      EXPECT_EQ(node.layer, layers::Layer(layers::AvgPool{.kernel = 1, .stride = 2}));
    }
  }
  EXPECT_THAT(narrow, ::testing::ElementsAre("layer2.0.add", "layer3.0.add"));
  EXPECT_EQ(weighted, 20);
}

std::map<std::string, layers::Conv2d> Convolutions(const std::string& name, ModelOptions options = {}) {
  std::map<std::string, layers::Conv2d> found;
  for (const layers::LayerNode& node : Built(name, options).nodes) {
    if (const auto* conv = std::get_if<layers::Conv2d>(&node.layer)) found[node.name] = *conv;
  }
  return found;
}

// "v1.5": where He et al. 2015 have the stride in the first 1x1 convolution.
TEST(Models, ABottleneckHasItsStrideInIts3x3Convolution) {
  for (const char* name : {"resnet50", "resnet101", "resnet152", "resnext50_32x4d"}) {
    std::vector<std::string> strided;
    for (const auto& [layer, conv] : Convolutions(name)) {
      if (conv.stride != 1) strided.push_back(layer);
    }
    EXPECT_THAT(strided, ::testing::ElementsAre("conv1", "layer2.0.conv2", "layer2.0.downsample.0", "layer3.0.conv2",
                                                "layer3.0.downsample.0", "layer4.0.conv2", "layer4.0.downsample.0"))
        << name;
  }
}

TEST(Models, ABasicBlockHasItsStrideInItsFirstConvolution) {
  for (const char* name : {"resnet18", "resnet34"}) {
    std::vector<std::string> strided;
    for (const auto& [layer, conv] : Convolutions(name)) {
      if (conv.stride != 1) strided.push_back(layer);
    }
    EXPECT_THAT(strided, ::testing::ElementsAre("conv1", "layer2.0.conv1", "layer2.0.downsample.0", "layer3.0.conv1",
                                                "layer3.0.downsample.0", "layer4.0.conv1", "layer4.0.downsample.0"))
        << name;
  }
}

TEST(Models, ResidualConvolutionsHaveNoBiasAndOnlyResnextsHaveGroups) {
  for (const ModelInfo& model : AllModels()) {
    if (model.name.rfind("resne", 0) != 0) continue;
    for (const auto& [layer, conv] : Convolutions(model.name)) {
      const bool grouped = model.name == "resnext50_32x4d" && layer.find(".conv2") != std::string::npos;
      EXPECT_FALSE(conv.bias) << model.name << " " << layer;
      EXPECT_EQ(conv.groups, grouped ? 32 : 1) << model.name << " " << layer;
    }
  }
}

// Xie et al. 2016, section 5.1: 32 groups, however wide.
TEST(Models, ResnextHas32GroupsAtEveryWidth) {
  for (double width : {0.01, 0.125, 0.3, 1.0, 2.0}) {
    const auto convolutions = Convolutions("resnext50_32x4d", {.width = width});
    EXPECT_EQ(convolutions.at("layer1.0.conv2").groups, 32) << width;
    EXPECT_EQ(convolutions.at("layer1.0.conv2").out_channels, width < 1 ? 32 : 128 * width) << width;
  }
}

std::map<std::string, layers::BatchNorm> Norms(const std::string& name, const ModelOptions& options) {
  std::map<std::string, layers::BatchNorm> found;
  for (const layers::LayerNode& node : Built(name, options).nodes) {
    if (const auto* norm = std::get_if<layers::BatchNorm>(&node.layer)) found[node.name] = *norm;
  }
  return found;
}

// One for each convolution.
const std::map<std::string, size_t> kNormalised = {
    {"vgg16_bn", 13},   {"googlenet_bn", 57}, {"resnet18", 20},        {"resnet34", 36}, {"resnet50", 53},
    {"resnet101", 104}, {"resnet152", 155},   {"resnext50_32x4d", 53}, {"resnet20", 19}, {"resnet56", 55}};

TEST(Models, EveryNormalisationHasTheSamplesPerGroupThatWereAskedFor) {
  for (const ModelInfo& model : AllModels()) {
    const auto expected = kNormalised.find(model.name);
    for (int64_t samples : {0, 8}) {
      if (samples > 0 && expected == kNormalised.end()) continue;
      const auto norms = Norms(model.name, {.samples_per_group = samples});
      EXPECT_EQ(norms.size(), expected == kNormalised.end() ? 0 : expected->second) << model.name;
      for (const auto& [layer, norm] : norms) {
        const double epsilon = model.name == "googlenet_bn" ? 1e-3 : 1e-5;  // as torchvision's
        EXPECT_EQ(norm, (layers::BatchNorm{.epsilon = epsilon, .samples_per_group = samples})) << model.name << " " << layer;
      }
    }
  }
}

// torchvision's zero_init_residual: bn3 of a Bottleneck, bn2 of a BasicBlock.
TEST(Models, ZeroInitResidualSetsTheLastWeightsOfEachBranchToZeroAlone) {
  for (const auto& [name, count] : kNormalised) {
    const bool bottleneck = Convolutions(name).count("layer1.0.conv3") > 0, residual = name.rfind("resne", 0) == 0;
    if (!residual) continue;
    const std::string last = bottleneck ? ".bn3" : ".bn2";
    const auto of_last = [&](const std::string& layer) {
      return layer.size() > 4 && layer.substr(layer.size() - 4) == last;
    };
    size_t zeros = 0;
    for (const layers::LayerNode& node : Built(name, {.zero_init_residual = true}).nodes) {
      if (!std::holds_alternative<layers::BatchNorm>(node.layer)) continue;
      const double expected = of_last(node.name) ? 0 : 1;
      EXPECT_EQ(node.parameters[0].initializer, (program::Initializer{program::Initializer::Kind::kConstant, expected}))
          << name << " " << node.name;
      zeros += of_last(node.name);
    }
    const std::map<std::string, size_t> blocks = {{"resnet18", 8},   {"resnet34", 16},  {"resnet50", 16},
                                                  {"resnet101", 33}, {"resnet152", 50}, {"resnext50_32x4d", 16},
                                                  {"resnet20", 9},   {"resnet56", 27}};
    EXPECT_EQ(zeros, blocks.at(name)) << name;
  }
}

TEST(Models, WithoutWhatAnOptionOfNormalisationChangesAreRefused) {
  for (const ModelInfo& model : AllModels()) {
    const bool is_normalised = kNormalised.contains(model.name), is_residual = model.name.rfind("resne", 0) == 0;
    const absl::Status in_groups = BuildModel(model.name, {.samples_per_group = 4}).status(),
                       at_zero = BuildModel(model.name, {.zero_init_residual = true}).status();
    EXPECT_EQ(in_groups, is_normalised ? absl::OkStatus()
                                       : absl::FailedPreconditionError(
                                             "samples_per_group: expected a network with batch normalisation, found " +
                                             model.name + ", which has none"));
    EXPECT_EQ(at_zero, is_residual ? absl::OkStatus()
                                   : absl::FailedPreconditionError(
                                         "zero_init_residual: expected a network whose residual branches end in batch "
                                         "normalisation, found " +
                                         model.name + ", which has none"));
  }
  EXPECT_FALSE(BuildModel("lenet", {.samples_per_group = -4}).ok());
}

}  // namespace
}  // namespace colonnade::models
