#include "models/models.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::models {
namespace {

using ::testing::HasSubstr;

layers::LayerGraph Built(const std::string& name, ModelOptions options = {}) {
  absl::StatusOr<layers::LayerGraph> graph = BuildModel(name, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(Models, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(Built("alexnet").ParameterCount(), 61'100'840);
  EXPECT_EQ(Built("alexnet2012").ParameterCount(), 60'965'224);
  EXPECT_EQ(Built("lenet").ParameterCount(), 61'706);
}

TEST(Models, AlexnetHasTorchvisionsNamesAndShapes) {
  const std::map<std::string, program::Shape> expected = {
      {"features.0.weight", {64, 3, 11, 11}},  {"features.0.bias", {64}},       {"features.3.weight", {192, 64, 5, 5}},
      {"features.3.bias", {192}},              {"features.6.weight", {384, 192, 3, 3}}, {"features.6.bias", {384}},
      {"features.8.weight", {256, 384, 3, 3}}, {"features.8.bias", {256}},      {"features.10.weight", {256, 256, 3, 3}},
      {"features.10.bias", {256}},             {"classifier.1.weight", {4096, 9216}}, {"classifier.1.bias", {4096}},
      {"classifier.4.weight", {4096, 4096}},   {"classifier.4.bias", {4096}},   {"classifier.6.weight", {1000, 4096}},
      {"classifier.6.bias", {1000}}};
  std::map<std::string, program::Shape> found;
  for (const layers::LayerNode& node : Built("alexnet").nodes) {
    for (const layers::ParameterSpec& p : node.parameters) found[p.name] = p.shape;
  }
  EXPECT_EQ(found, expected);
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

}  // namespace
}  // namespace colonnade::models
