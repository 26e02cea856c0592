// What may be split how on two axes, and what then lies where.
#include "partition/shardings.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"
#include "tests/partition/random_case.h"

namespace colonnade::partition {
namespace {

using layers::Strategy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kMostRefused =
    1719;  // 1637 of 4436 for the networks drawn since GELU is among the layers, and a twentieth more

absl::StatusOr<NodeSharding> Sharding(const layers::LayerGraph& graph, const std::string& layer, const Mesh& mesh,
                                      const std::vector<Strategy>& strategies) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == layer) return ShardNode(graph, layers::LayerId{static_cast<int32_t>(i)}, mesh, strategies, 8);
  }
  return absl::NotFoundError(layer);
}

// The pairs of strategies that are legal on 2 x 2 positions, in letters: r(eplicate) b(atch) c(olumn) g(roup) w (row).
std::vector<std::string> LegalPairs(const layers::LayerGraph& graph, const std::string& layer) {
  const std::vector<std::pair<char, Strategy>> all = {
      {'r', kReplicate}, {'b', kBatch}, {'c', kColumn}, {'g', kGroup}, {'w', kRow}};
  std::vector<std::string> legal;
  for (const auto& [outer_letter, outer] : all) {
    std::string line = {outer_letter, ':'};
    for (const auto& [inner_letter, inner] : all) {
      if (Sharding(graph, layer, Mesh::ReplicasByColumns(2, 2), {outer, inner}).ok()) line += inner_letter;
    }
    if (line.size() > 2) legal.push_back(line);
  }
  return legal;
}

// conv: 8 channels in 2 groups to 8; full: 8 to 8; lrn in 2 blocks; fc: all with a bias.
layers::LayerGraph Grouped(int64_t groups = 2) {
  layers::GraphBuilder net("grouped");
  auto x = net.Conv2d("first", net.Input("images", {4, 4, 4}), {.out_channels = 8, .kernel = 1});
  x = net.Conv2d("conv", x, {.out_channels = 8, .kernel = 3, .pad = 1, .groups = groups});
  x = net.Conv2d("full", net.Lrn("lrn", x, {.groups = groups}), {.out_channels = 8, .kernel = 1});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return Built(std::move(net));
}

// A strategy that became illegal by mistake would be one that random plans never draw.
TEST(ShardNode, EveryPairOfStrategiesThatIsLegalOnTwoAxes) {
  const layers::LayerGraph graph = Grouped();
  EXPECT_THAT(LegalPairs(graph, "fc"), ElementsAre("r:rbcw", "b:rbcw", "c:rbcw", "w:rbcw"));
  EXPECT_THAT(LegalPairs(graph, "full"), ElementsAre("r:rbcw", "b:rbcw", "c:rbcw", "w:rbcw"));
  EXPECT_THAT(LegalPairs(graph, "lrn"), ElementsAre("r:rbg", "b:rbg", "g:rb"));
  EXPECT_THAT(LegalPairs(graph, "flatten"), ElementsAre("r:rbg", "b:rbg", "g:rbg"));
  EXPECT_THAT(LegalPairs(graph, "loss"), ElementsAre("r:rb", "b:rb"));
}

// Two groups over four positions: each pair of positions holds one group's input and half of its outputs. What is left on
// one position is a dense convolution of 4 channels to 2, which a second axis splits as such.
TEST(ShardNode, GroupsOverMorePositionsThanGroupsAreSplitOnceMore) {
  const layers::LayerGraph graph = Grouped();
  const Mesh mesh = Mesh::ReplicasByColumns(4, 2);
  const layers::Placement half = layers::Placement::Replicated(2), half_sum = layers::Placement::Partial(2);
  const absl::StatusOr<NodeSharding> column = Sharding(graph, "conv", mesh, {kGroup, kColumn});
  ASSERT_TRUE(column.ok()) << column.status();
  EXPECT_EQ(column->inputs[0], (TensorPlacement{half, kR}));
  EXPECT_EQ(column->output, (TensorPlacement{kS1, kS1}));
  EXPECT_EQ(column->parameters, (std::vector<TensorPlacement>{{kS0, kS0}, {kS0, kS0}}));
  EXPECT_EQ(column->input_gradients[0], (TensorPlacement{half_sum, kP}));
  const absl::StatusOr<NodeSharding> row = Sharding(graph, "conv", mesh, {kGroup, kRow});
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->inputs[0], (TensorPlacement{half, kS1}));
  EXPECT_EQ(row->parameters, (std::vector<TensorPlacement>{{kS0, kS1}})) << "its bias is added apart";
  EXPECT_EQ(row->output, (TensorPlacement{kS1, kP}));
  const layers::LayerShapes local = LocalShapes(mesh, *row, graph.Shapes(layers::LayerId{2}, 8));
  EXPECT_EQ(local.inputs[0], (program::Shape{8, 2, 4, 4}));
  EXPECT_EQ(local.output, (program::Shape{8, 2, 4, 4}));
  EXPECT_THAT(local.parameters, ElementsAre(program::Shape{2, 2, 3, 3}));
}

TEST(ShardNode, ARowLayerWithABiasIsLegalOnEitherAxis) {
  const layers::LayerGraph graph = Grouped();
  for (const std::vector<Strategy>& strategies :
       {std::vector<Strategy>{kRow, kBatch}, {kBatch, kRow}, {kColumn, kRow}, {kRow, kRow}, {kReplicate, kRow}}) {
    for (const char* layer : {"fc", "full"}) {
      const absl::StatusOr<NodeSharding> sharding = Sharding(graph, layer, Mesh::ReplicasByColumns(2, 2), strategies);
      ASSERT_TRUE(sharding.ok()) << sharding.status();
      EXPECT_EQ(sharding->parameters.size(), 1u) << "without its bias";
    }
  }
}

TEST(ShardNode, TheSecondAxisSplitsWhatTheFirstHasLeft) {
  const layers::LayerGraph graph = TwoLayers();
  const absl::Status status = Sharding(graph, "fc1", Mesh::ReplicasByColumns(3, 4), {kColumn, kColumn}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("output features divisible by 4, found 2"));
}

// Of the strategies that random plans try, so many are refused because of the layer's type, its groups or its sizes. More of
// them would say that something that was legal no longer is, and is no longer tested under any plan.
TEST(RandomPlans, NoMoreStrategiesAreRefusedThanThereAreReasons) {
  Random random(20131);
  Tries tries;
  for (int i = 0; i < 200; ++i) {
    const absl::StatusOr<RandomNetwork> network = NetworkDrawer(random, false).Draw();
    ASSERT_TRUE(network.ok()) << network.status();
    const int64_t outer = 1 + i % 4, inner = 1 + i / 4 % 4;
    DrawPlan(random, network->graph, outer, inner, outer * inner, &tries);
  }
  EXPECT_GT(tries.all, 3000);
  RecordProperty("refused", tries.refused);
  EXPECT_LE(tries.refused, kMostRefused) << "of " << tries.all;
}

}  // namespace
}  // namespace colonnade::partition
