// Networks as files: that every network of the zoo is read as it was written, and what is said of a file that is wrong.
#include "tools/network_file.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/text.h"
#include "tests/folder.h"
#include "tests/paths.h"
#include "tests/read_file.h"

namespace colonnade::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void ExpectSameLayers(const layers::LayerGraph& found, const layers::LayerGraph& expected) {
  EXPECT_EQ(found.name, expected.name);
  ASSERT_EQ(found.nodes.size(), expected.nodes.size()) << expected.name;
  for (size_t i = 0; i < expected.nodes.size(); ++i) {
    const layers::LayerNode &a = found.nodes[i], &b = expected.nodes[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_TRUE(a.layer == b.layer) << expected.name << ", " << b.name;
    EXPECT_TRUE(a.inputs == b.inputs) << expected.name << ", " << b.name;
    EXPECT_EQ(a.sample_shape, b.sample_shape);
    EXPECT_EQ(a.sections, b.sections);
    ASSERT_EQ(a.parameters.size(), b.parameters.size()) << b.name;
    for (size_t p = 0; p < b.parameters.size(); ++p) {
      EXPECT_EQ(a.parameters[p].name, b.parameters[p].name);
      EXPECT_EQ(a.parameters[p].shape, b.parameters[p].shape);
      EXPECT_TRUE(a.parameters[p].initializer == b.parameters[p].initializer) << b.parameters[p].name;
    }
  }
}

Network WrittenAndRead(const Network& network) {
  const std::string json = NetworkToJson(network);
  absl::StatusOr<Network> again = NetworkFromJson(json);
  EXPECT_TRUE(again.ok()) << network.graph.name << ": " << again.status();
  if (!again.ok()) return {};
  EXPECT_EQ(NetworkToJson(*again), json);
  return *std::move(again);
}

TEST(NetworkFile, EveryNetworkOfTheZooIsReadAsItWasWritten) {
  for (const models::ModelInfo& model : models::AllModels()) {
    const bool is_residual = absl::StartsWith(model.name, "res"),
               is_normalised = is_residual || absl::EndsWith(model.name, "_bn");
    const models::ModelOptions options[] = {
        {},
        {.classes = 7, .width = 0.5, .dropout = false, .samples_per_group = is_normalised ? 8 : 0, .label_smoothing = 0.1},
        {.zero_init_residual = is_residual, .auxiliary_heads = model.has_auxiliary_heads},
        {.input_channels = 2, .input_size = model.input_size + 32}};
    for (const models::ModelOptions& option : options) {
      absl::StatusOr<Network> network = OpenNetwork(model.name, option);
      ASSERT_TRUE(network.ok()) << network.status();
      const Network again = WrittenAndRead(*network);
      ExpectSameLayers(again.graph, network->graph);
      const models::ModelInfo &a = again.info, &b = network->info;
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.description, b.description);
      EXPECT_EQ(std::tuple(a.learning_rate, a.momentum, a.weight_decay, a.lr_policy, a.shifts_images),
                std::tuple(b.learning_rate, b.momentum, b.weight_decay, b.lr_policy, b.shifts_images));
      EXPECT_EQ(a.classes, network->graph.classes());
    }
  }
}

std::string ProgramOf(const layers::LayerGraph& graph, const std::string& plan, int devices) {
  const auto chosen = partition::NamedPlan(plan, graph, {.devices = devices, .global_batch = 16});
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  const auto program = partition::Lower(graph, *chosen, {.global_batch = 16});
  EXPECT_TRUE(program.ok()) << program.status();
  return program::Print(*program);
}

TEST(NetworkFile, WhatIsReadIsLoweredToTheSameProgram) {
  for (const char* name : {"two_column", "lenet", "alexnet2012", "resnet20", "googlenet"}) {
    const models::ModelOptions options{.width = 0.25, .auxiliary_heads = std::string(name) == "googlenet"};
    const Network network = *OpenNetwork(name, options), again = WrittenAndRead(network);
    EXPECT_EQ(ProgramOf(again.graph, "single", 1), ProgramOf(network.graph, "single", 1)) << name;
    EXPECT_EQ(ProgramOf(again.graph, "hybrid", 4), ProgramOf(network.graph, "hybrid", 4)) << name;
  }
}

// Layers and initialisers that no network of the zoo has.
TEST(NetworkFile, EveryLayerAndInitialiserIsReadAsItWasWritten) {
  using program::Initializer;
  layers::GraphBuilder net("all");
  auto x = net.Input("images", {3, 9, 8});
  x = net.Conv2d("conv", x,
                 {.out_channels = 6,
                  .kernel = 3,
                  .kernel_w = 2,
                  .stride = 2,
                  .pad = 1,
                  .groups = 3,
                  .bias = false,
                  .weight_init = Initializer{}});
  x = net.Gelu("gelu", net.BatchNorm("bn", x, {.epsilon = 1e-3, .momentum = 0.3, .initial_weight = 0}));
  const auto norm = net.LayerNorm("norm", x, {.epsilon = 1e-6});
  const auto narrow = net.Conv2d("narrow", x,
                                 {.out_channels = 4,
                                  .weight_init = Initializer{Initializer::Kind::kGaussian, 1e38},
                                  .bias_init = {Initializer::Kind::kUniform, 0.1}});
  x = net.Add("sum", {norm, x, norm});
  x = net.AddNarrow("wide", x, narrow);
  x = net.Lrn("lrn", x, {.size = 3, .groups = 2, .alpha = 1e-38, .beta = 1e38, .k = 1});
  x = net.AvgPool("mean", x, {.kernel = 2, .kernel_w = 1, .stride = 1, .pad = 0, .count_pad = false, .ceil_mode = true});
  x = net.MaxPool("max", x, {.kernel = 2, .stride = 1, .pad = 1, .ceil_mode = true});
  x = net.Flatten("flatten", net.Concat("three", {net.Concat("both", {x, x}), x}));
  x = net.Dropout("dropout", net.Relu("relu", x), {.rate = 0.25});
  x = net.FullyConnected("fc", x, {.out_features = 5, .bias_init = {Initializer::Kind::kConstant, -1e38}});
  net.SoftmaxCrossEntropy("loss", x, {.weight = 2, .label_smoothing = 0.2});
  absl::StatusOr<layers::LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<bool> seen(layers::DefaultLayers().size());
  for (const layers::LayerNode& node : graph->nodes) seen[node.layer.index()] = true;
  EXPECT_THAT(seen, ::testing::Each(true)) << "a layer of this test for each type";
  ExpectSameLayers(WrittenAndRead({.info = {}, .graph = *graph}).graph, *graph);
}

constexpr char kSmall[] = R"({
 "colonnade_model": 1,
 "name": "small",
 "training": {"learning_rate": 0.02},
 "layers": [
  {"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},
  {"name": "conv1", "type": "Conv2d", "out_channels": 8, "kernel": 3, "pad": 1},
  {"name": "relu1", "type": "Relu"},
  {"name": "conv2", "type": "Conv2d", "out_channels": 8, "kernel": 3, "pad": 1, "weight_init": {"gaussian": 0.01}},
  {"name": "sum", "type": "Add", "inputs": ["conv2", "relu1"]},
  {"name": "flatten", "type": "Flatten"},
  {"name": "fc", "type": "FullyConnected", "out_features": 10},
  {"name": "loss", "type": "SoftmaxCrossEntropy"}
 ]
})";

TEST(NetworkFile, ALayerReadsTheOneBeforeItUnlessItSaysOtherwise) {
  const absl::StatusOr<Network> network = NetworkFromJson(kSmall);
  ASSERT_TRUE(network.ok()) << network.status();
  const layers::LayerGraph& graph = network->graph;
  EXPECT_EQ(graph.node(graph.nodes[1].inputs[0]).name, "images");
  ASSERT_EQ(graph.nodes[4].inputs.size(), 2u);
  EXPECT_EQ(graph.node(graph.nodes[4].inputs[0]).name, "conv2");
  EXPECT_EQ(graph.node(graph.nodes[4].inputs[1]).name, "relu1");
  EXPECT_EQ(network->info.learning_rate, 0.02);
  EXPECT_EQ(network->info.momentum, models::ModelInfo().momentum);
  EXPECT_EQ(network->info.input_size, 8);
  EXPECT_EQ(network->info.classes, 10);
  EXPECT_THAT(NetworkToJson(*network),
              HasSubstr(R"(  {"name": "conv1", "type": "Conv2d", "out_channels": 8, "kernel": 3, "pad": 1},)"))
      << "in one line, without what is so by default";
}

std::string ErrorOf(const std::string& from, const std::string& to) {
  const std::string json = absl::StrReplaceAll(kSmall, {{from, to}});
  EXPECT_NE(json, kSmall) << from;
  const absl::Status status = NetworkFromJson(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << " of " << to;
  return std::string(status.message());
}

TEST(NetworkFile, NamesWhatIsWrongWhereItIs) {
  EXPECT_EQ(ErrorOf("\"pad\": 1},", "\"pad\": 1,},").substr(0, 36), "expected JSON; line 7, column 80: un");
  EXPECT_EQ(ErrorOf(R"("colonnade_model": 1)", R"("colonnade_model": 2)"), "colonnade_model: expected version 1, found 2");
  EXPECT_EQ(ErrorOf(R"("colonnade_model": 1,)", ""), "colonnade_model: expected 1, the version of such files, found none");
  EXPECT_THAT(ErrorOf("\"layers\": [", "\"layer\": ["), StartsWith("layer: unknown field, did you mean \"layers\"?"));
  EXPECT_THAT(ErrorOf(R"("learning_rate")", R"("learn_rate")"),
              StartsWith("training.learn_rate: unknown field, did you mean \"learning_rate\"?"));
  EXPECT_EQ(ErrorOf("0.02", "-1"), "training.learning_rate: expected a number of at least 0, found -1");
  EXPECT_THAT(ErrorOf(R"({"learning_rate": 0.02})", R"({"lr_policy": "cosin"})"),
              StartsWith("training.lr_policy: expected constant, step:N,F, "));
  EXPECT_THAT(ErrorOf(R"("kernel": 3, "pad": 1})", R"("kernal": 3, "pad": 1})"),
              StartsWith("layers[1] \"conv1\".kernal: unknown field, did you mean \"kernel\"?; expected one of name, type, "
                         "inputs, out_channels, kernel, "));
  EXPECT_EQ(ErrorOf(R"("kernel": 3, "pad": 1})", R"("kernel": "3", "pad": 1})"),
            "layers[1] \"conv1\".kernel: expected a whole number from 1 to 1e+12, found \"3\"");
  EXPECT_EQ(ErrorOf(R"("kernel": 3, "pad": 1})", R"("kernel": 3, "pad": -1})"),
            "layers[1] \"conv1\".pad: expected a whole number from 0 to 1e+12, found -1");
  EXPECT_EQ(ErrorOf(R"("out_features": 10)", R"("out_features": 10, "bias": 1)"),
            "layers[6] \"fc\".bias: expected true or false, found 1");
  EXPECT_THAT(
      ErrorOf("\"Relu\"", "\"ReLU\""),
      StartsWith("layers[2] \"relu1\".type: unknown name \"ReLU\", did you mean \"Relu\"?; expected one of Input, "));
  EXPECT_EQ(ErrorOf("\"name\": \"conv1\", ", ""), "layers[1].name: missing");
  EXPECT_TRUE(NetworkFromJson(absl::StrReplaceAll(kSmall, {{"[1, 8, 8]", "[1, 8.0, 8]"}})).ok()) << "as scripts write it";
  EXPECT_THAT(ErrorOf("[1, 8, 8]", "[1, 8.5, 8]"),
              HasSubstr("sample_shape[1]: expected a whole number from 1 to 1e+12, found 8.5"));
  EXPECT_EQ(ErrorOf("[1, 8, 8]", "[1, 0, 8]"),
            "layers[0] \"images\".sample_shape[1]: expected a whole number from 1 to 1e+12, found 0");
  EXPECT_THAT(ErrorOf("[1, 8, 8]", "[1, 8]"), HasSubstr("Input \"images\": expected a sample shape [C,H,W] of images, or "
                                                        "[F] in C++ alone, of positive extents, found [1,8]"));
  EXPECT_THAT(ErrorOf("sample_shape", "sampleshape"),
              HasSubstr("\"images\".sampleshape: unknown field, did you mean \"sample_shape\"?"));
  EXPECT_EQ(ErrorOf(R"(["conv2", "relu1"])", R"(["conv2", "relu11"])"),
            "layers[4] \"sum\".inputs[1]: expected the name of a layer before this one (did you mean \"relu1\"?), found "
            "\"relu11\"");
  EXPECT_THAT(ErrorOf(R"(["conv2", "relu1"])", R"(["conv2", "fc"])"), HasSubstr("(that one comes later), found \"fc\""));
  EXPECT_THAT(ErrorOf(R"(["conv2", "relu1"])", R"(["conv2", "sum"])"),
              HasSubstr("(that is this layer itself), found \"sum\""));
  EXPECT_EQ(ErrorOf(R"(, "inputs": ["conv2", "relu1"])", ""), "layers[4] \"sum\".inputs: missing");
  EXPECT_THAT(ErrorOf(R"(["conv2", "relu1"])", R"("conv2")"), HasSubstr("\"sum\".inputs: expected a list, found \"conv2\""));
  EXPECT_THAT(ErrorOf(R"({"gaussian": 0.01})", "0.01"),
              HasSubstr("\"conv2\".weight_init: expected one of {\"constant\": value}, {\"gaussian\": deviation} and"));
  EXPECT_THAT(ErrorOf(R"({"gaussian": 0.01})", R"({"gausian": 0.01})"),
              HasSubstr("\"conv2\".weight_init.gausian: unknown field, did you mean \"gaussian\"?"));
  EXPECT_EQ(ErrorOf(R"({"gaussian": 0.01})", R"({"gaussian": -0.01})"),
            "layers[3] \"conv2\".weight_init.gaussian: expected a number of at least 0, found -0.01");
  EXPECT_EQ(ErrorOf(R"({"gaussian": 0.01})", R"({"constant": "0"})"),
            "layers[3] \"conv2\".weight_init.constant: expected a number, found \"0\"");
  EXPECT_EQ(std::string(NetworkFromJson("[]").status().message()), "expected an object, found a list");
  EXPECT_EQ(ErrorOf(R"("layers": [)", R"("layers": [ 3,)"), "layers[0]: expected an object, found 3");
}

TEST(NetworkFile, SaysWhatTheGraphRefusesWithTheLayer) {
  EXPECT_THAT(ErrorOf("\"name\": \"relu1\"", "\"name\": \"conv1\""),
              AllOf(HasSubstr("Relu \"conv1\""), HasSubstr("found the name of another layer")));
  EXPECT_THAT(ErrorOf(R"("kernel": 3, "pad": 1, "weight_init")", R"("kernel": 3, "weight_init")"),
              AllOf(HasSubstr("Add \"sum\""), HasSubstr("[8,6,6] and [8,8,8]")));
  EXPECT_THAT(ErrorOf(R"({"name": "flatten", "type": "Flatten"},)", ""),
              AllOf(HasSubstr("FullyConnected \"fc\""), HasSubstr("found [8,8,8]; put a Flatten layer before it")));
  EXPECT_THAT(ErrorOf(R"(,
  {"name": "loss", "type": "SoftmaxCrossEntropy"})",
                      ""),
              HasSubstr("expected a SoftmaxCrossEntropy as last layer, found FullyConnected \"fc\""));
  EXPECT_THAT(ErrorOf(R"({"name": "images", "type": "Input", "sample_shape": [1, 8, 8]},)", ""),
              HasSubstr("Conv2d \"conv1\": expected one input of shape [C,H,W], found none"));
  EXPECT_THAT(
      ErrorOf(R"({"name": "relu1", "type": "Relu"})", R"({"name": "relu1", "type": "Input", "sample_shape": [1, 8, 8]})"),
      HasSubstr("Input \"relu1\": expected one Input, found a second"));
  EXPECT_THAT(ErrorOf(R"("type": "Conv2d", "out_channels": 8, "kernel": 3, "pad": 1, "weight_init")",
                      R"("type": "Conv2d", "inputs": ["conv1", "relu1"], "out_channels": 8, "weight_init")"),
              HasSubstr("expected one input of shape [C,H,W], found [8,8,8] and [8,8,8]"));
}

TEST(NetworkFile, ALongNameOrManyLayersAreRefusedAtOnce) {
  EXPECT_THAT(ErrorOf("relu1", std::string(100'000, 'x')), HasSubstr(".name: expected at most 200 bytes, found 100000"));
  EXPECT_THAT(ErrorOf("relu1", absl::StrCat("x", absl::StrReplaceAll(std::string(150, 'y'), {{"y", "é"}}))),
              HasSubstr("é\".name: expected at most 200 bytes, found 301"));
  EXPECT_THAT(
      ErrorOf(R"(["conv2", "relu1"])", absl::StrCat("[\"conv2\", \"", std::string(100'000, 'r'), "\"]")),
      AllOf(HasSubstr("\"sum\".inputs[1]: expected the name of a layer before this one, found"), Not(HasSubstr("mean"))));
  std::string many = R"({"colonnade_model": 1, "name": "m", "layers": [{"name": "i", "type": "Input", "sample_shape": [1]})";
  for (int i = 0; i < 10'000; ++i) absl::StrAppendFormat(&many, R"(, {"name": "r%d", "type": "Relu"})", i);
  EXPECT_THAT(std::string(NetworkFromJson(many + "]}").status().message()),
              HasSubstr("layers: expected at most 10000, found 10001"));
}

// "kernel" of "Conv2d" as the page has it: "`kernel` (1".
std::string OnThePage(const layers::Field& field) {
  const std::string name = absl::StrCat("`", field.name, "`");
  if (const auto* count = std::get_if<int64_t*>(&field.value);
      count != nullptr && std::string(field.name).find("out_") != 0) {
    return absl::StrCat(name, " (", **count);
  }
  if (const auto* number = std::get_if<double*>(&field.value)) return absl::StrFormat("%s (%g)", name, **number);
  if (const auto* flag = std::get_if<bool*>(&field.value)) return absl::StrCat(name, **flag ? " (true)" : " (false)");
  return name;
}

TEST(NetworkFile, ThePageListsEveryFieldWithItsDefault) {
  const std::string page = *engine::ReadFile(absl::StrCat(kSourceDir, "/docs/models.md"));
  for (layers::Layer layer : layers::DefaultLayers()) {
    const std::vector<layers::Field> fields = layers::Fields(layer);
    const std::string type = absl::StrCat("`", layers::TypeName(layer), "`");
    const size_t begin = page.find((fields.empty() ? "" : "\n| ") + type);
    ASSERT_NE(begin, std::string::npos) << type;
    const std::string row = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
    for (const layers::Field& field : fields) EXPECT_THAT(row, HasSubstr(OnThePage(field))) << type;
  }
}

class NetworkFiles : public Folder {};

TEST_F(NetworkFiles, AreWhatHasADotOrASlashOrIsThere) {
  EXPECT_TRUE(IsNetworkFile("mine.json"));
  EXPECT_TRUE(IsNetworkFile("folder/mine"));
  EXPECT_FALSE(IsNetworkFile("resnet20"));
  EXPECT_FALSE(IsNetworkFile("resnet21"));
  EXPECT_FALSE(IsNetworkFile(""));
  ASSERT_TRUE(engine::ReplaceFile(In("small.json"), kSmall).ok());
  const absl::StatusOr<Network> network = OpenNetwork(In("small.json"));
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->graph.name, "small");
  ASSERT_TRUE(engine::ReplaceFile(In("small.json"), "{}").ok());
  EXPECT_EQ(std::string(OpenNetwork(In("small.json")).status().message()),
            absl::StrCat(In("small.json"), ": colonnade_model: expected 1, the version of such files, found none"));
  ASSERT_TRUE(engine::ReplaceFile(In("small.json"), R"({"colonnade_plan": 1})").ok());
  EXPECT_EQ(std::string(OpenNetwork(In("small.json")).status().message()),
            absl::StrCat(In("small.json"), ": expected a network file, found a plan file; --plan takes it"));
  EXPECT_EQ(OpenNetwork(In("none.json")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenNetwork("resnet21").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NetworkFiles, WeightsStateTheirNetwork) {
  const Network network = *OpenNetwork("resnet20", {.classes = 3, .width = 0.25, .samples_per_group = 4});
  const engine::Metadata metadata = NetworkMetadata(network);
  EXPECT_TRUE(StatesNetwork(metadata));
  EXPECT_FALSE(StatesNetwork({{"colonnade_trained_on", "{}"}}));
  const std::string weights = In("weights");  // of any name
  ASSERT_TRUE(engine::SaveTensors(weights, absl::Span<const engine::TensorView>(), metadata).ok());
  EXPECT_TRUE(IsWeightsFile(weights));
  const absl::StatusOr<Network> again = OpenNetwork(weights);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSameLayers(again->graph, network.graph);
  EXPECT_EQ(again->info.weight_decay, network.info.weight_decay);
}

TEST_F(NetworkFiles, WeightsThatStateNoneOrADamagedOneAreNamed) {
  const std::string weights = In("w.safetensors");
  const auto expect = [&](const engine::Metadata& metadata, const std::string& said) {
    ASSERT_TRUE(engine::SaveTensors(weights, absl::Span<const engine::TensorView>(), metadata).ok());
    const absl::Status status = OpenNetwork(weights).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat(weights, ": ", said)));
  };
  expect({}, "expected weights that state their network, under colonnade_network, found none; give");
  expect({{"colonnade_network", "{}"}}, "colonnade_network: colonnade_model: expected 1");
  ASSERT_TRUE(engine::ReplaceFile(weights, std::string("\2\0\0\0\0\0\0\0{{", 10)).ok());
  EXPECT_THAT(std::string(OpenNetwork(weights).status().message()), AllOf(StartsWith(weights), HasSubstr("header")));
  ASSERT_TRUE(engine::ReplaceFile(weights, kSmall).ok());
  EXPECT_FALSE(IsWeightsFile(weights)) << "its bytes tell, not its name";
}

}  // namespace
}  // namespace colonnade::tools
