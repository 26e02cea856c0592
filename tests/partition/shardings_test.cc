// What may be split how on two axes, and what then lies where.
#include "partition/shardings.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"
#include "tests/partition/random_case.h"

namespace colonnade::partition {
namespace {

using layers::Strategy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kMostRefused = 2111;  // 2011 of 5290 for the networks that are drawn, and a twentieth more

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

std::vector<program::Shape> ShapesOf(const std::vector<layers::EmittedOp>& ops) {
  std::vector<program::Shape> shapes;
  for (const layers::EmittedOp& op : ops) {
    for (const program::BufferUse& use : op.uses) shapes.push_back(use.region.size);
  }
  return shapes;
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

// A bias is a stage of its own where a device makes a summand alone: under `row`, on whichever axis, but of one position.
TEST(ShardNode, RowOnAnAxisOfOnePositionChangesNoStage) {
  const layers::LayerGraph graph = Grouped();
  const auto stages = [&](const Mesh& mesh, const std::vector<Strategy>& strategies) {
    const absl::StatusOr<NodeSharding> sharding = Sharding(graph, "fc", mesh, strategies);
    EXPECT_TRUE(sharding.ok()) << sharding.status();
    return sharding.ok() ? sharding->stages.stages.size() : 0;
  };
  const size_t whole = stages(Mesh::ReplicasByColumns(2, 1), {kBatch, kReplicate});
  EXPECT_EQ(stages(Mesh::ReplicasByColumns(2, 1), {kBatch, kRow}), whole);
  EXPECT_EQ(stages(Mesh::ReplicasByColumns(1, 2), {kRow, kColumn}), whole);
  EXPECT_EQ(stages(Mesh::ReplicasByColumns(2, 2), {kBatch, kRow}), whole + 2);
  EXPECT_EQ(stages(Mesh::ReplicasByColumns(2, 2), {kRow, kColumn}), whole + 2);
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
  EXPECT_EQ(row->parameters, (std::vector<TensorPlacement>{{kS0, kS1}, {kS0, kR}})) << "its bias is added apart";
  EXPECT_THAT(row->inner_made, ElementsAre(TensorPlacement{kS1, kP}));
  EXPECT_THAT(row->inner_needed, ElementsAre(TensorPlacement{kS1, kR}));
  EXPECT_EQ(row->output, (TensorPlacement{kS1, kR}));
  const program::Shape y = {8, 2, 4, 4};
  EXPECT_THAT(ShapesOf(EmitOnOneDevice(mesh, *row, 0)),
              ElementsAre(program::Shape{8, 2, 4, 4}, program::Shape{2, 2, 3, 3}, y));
  EXPECT_THAT(ShapesOf(EmitOnOneDevice(mesh, *row, 1)), ElementsAre(y, program::Shape{2}, y));
}

TEST(ShardNode, ARowLayerWithABiasIsLegalOnEitherAxis) {
  const layers::LayerGraph graph = Grouped();
  for (const std::vector<Strategy>& strategies :
       {std::vector<Strategy>{kRow, kBatch}, {kBatch, kRow}, {kColumn, kRow}, {kRow, kRow}, {kReplicate, kRow}}) {
    for (const char* layer : {"fc", "full"}) {
      const absl::StatusOr<NodeSharding> sharding = Sharding(graph, layer, Mesh::ReplicasByColumns(2, 2), strategies);
      ASSERT_TRUE(sharding.ok()) << sharding.status();
      EXPECT_EQ(sharding->parameters.size(), 2u);
      ASSERT_EQ(sharding->inner_made.size(), 1u);
      for (size_t a : {0, 1}) {
        const bool row = strategies[a] == kRow, column = strategies[a] == kColumn;
        EXPECT_EQ(sharding->inner_made[0][a], row ? kP : strategies[a] == kBatch ? kS0 : column ? kS1 : kR);
        EXPECT_EQ(sharding->inner_needed[0][a], row ? kR : sharding->inner_made[0][a]);
        EXPECT_EQ(sharding->parameters[1][a], column ? kS0 : kR) << "its bias lies as its channels";
      }
      EXPECT_EQ(sharding->output, sharding->inner_needed[0]);
    }
  }
}

TEST(ShardNode, TheSecondAxisSplitsWhatTheFirstHasLeft) {
  const layers::LayerGraph graph = TwoLayers();
  const absl::Status status = Sharding(graph, "fc1", Mesh::ReplicasByColumns(3, 4), {kColumn, kColumn}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("output features divisible by 4, found 2"));
}

// Channels of a concatenation behind a pooling: in sections on an axis that divides them, which a second axis cuts again.
TEST(ShardNode, SectionsOfAConcatenationAreCutByOneAxisAfterTheOther) {
  layers::GraphBuilder net("joined");
  auto x = net.Conv2d("conv", net.Input("images", {4, 4, 4}), {.out_channels = 16, .kernel = 1});
  x = net.MaxPool("pool", net.Concat("concat", {x, net.Conv2d("other", x, {.out_channels = 8, .kernel = 1})}),
                  {.kernel = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  const auto words = [&](int64_t outer, int64_t inner, Strategy first, Strategy second) {
    const absl::StatusOr<NodeSharding> s = Sharding(graph, "pool", Mesh::ReplicasByColumns(outer, inner), {first, second});
    return s.ok() ? absl::StrCat(layers::ToString(s->inputs[0][0]), " ", layers::ToString(s->output[1])) : "";
  };
  EXPECT_EQ(words(2, 4, kGroup, kGroup), "split(1: 16+8) split(1: 8+4)");
  EXPECT_EQ(words(2, 4, kBatch, kGroup), "split(0) split(1: 16+8)");
  EXPECT_EQ(words(4, 3, kReplicate, kGroup), "replicated split(1)");
  EXPECT_EQ(words(3, 4, kGroup, kGroup), "split(1) split(1)");  // of what the first leaves nobody knows the sections
}

TEST(NodeSharding, SaysOfEachSlotItsShapeAndHowItIsMadeAndNeeded) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const absl::StatusOr<NodeSharding> sharding = Sharding(TwoLayers(), "fc2", mesh, {kBatch, kRow});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  const layers::Slot w = layers::Parameter(0), b = layers::Parameter(1), z = layers::Inner();
  const auto words = [&](layers::Slot slot) {
    return absl::StrCat(program::ToString(ShapeOf(sharding->whole, slot)), " made ", Letters(Made(*sharding, slot)),
                        " needed ", Letters(Needed(*sharding, slot)));
  };
  EXPECT_EQ(Letters(Needed(*sharding, X())), "S0,S1");
  EXPECT_EQ(Letters(Made(*sharding, D(X()))), "S0,S1");
  EXPECT_EQ(words(w), "[4,6] made R,S1 needed R,S1");
  EXPECT_EQ(words(b), "[4] made R,R needed R,R");
  EXPECT_EQ(Letters(Made(*sharding, D(w))), "P,S1");
  EXPECT_EQ(Letters(Made(*sharding, D(b))), "P,R");
  EXPECT_EQ(words(z), "[8,4] made S0,P needed S0,R");
  EXPECT_EQ(words(Y()), "[8,4] made S0,R needed S0,R");
  EXPECT_EQ(Letters(Needed(*sharding, D(Y()))), "S0,R");
  const absl::StatusOr<NodeSharding> by_rows = Sharding(Grouped(), "fc", mesh, {kRow, kColumn});
  ASSERT_TRUE(by_rows.ok()) << by_rows.status();
  EXPECT_EQ(Letters(Made(*by_rows, D(X()))), "S1,P");
  EXPECT_EQ(Letters(Needed(*by_rows, X())), "S1,R");
  EXPECT_EQ(program::ToString(ShapeOf(by_rows->whole, D(X()))), "[8,128]");
}

TEST(ShardNode, StagesAreThoseOfTheModeAndTheStrategies) {
  layers::GraphBuilder net("dropped");
  net.SoftmaxCrossEntropy("loss", net.Dropout("dropout", net.Input("images", {4}), {.rate = 0.5}));
  const layers::LayerGraph graph = Built(std::move(net));
  const Mesh mesh = Mesh::ReplicasByColumns(1, 1);
  for (const program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
    const absl::StatusOr<NodeSharding> sharding =
        ShardNode(graph, layers::LayerId{1}, mesh, {kReplicate, kReplicate}, 8, mode);
    ASSERT_TRUE(sharding.ok()) << sharding.status();
    EXPECT_EQ(EmitOnOneDevice(mesh, *sharding, 0).empty(), mode == program::Mode::kEval);
  }
  for (const auto& [strategy, stages] : std::vector<std::pair<Strategy, size_t>>{{kColumn, 3}, {kRow, 5}}) {
    EXPECT_EQ(Sharding(TwoLayers(), "fc1", Mesh::ReplicasByColumns(1, 2), {kReplicate, strategy})->stages.stages.size(),
              stages);
  }
}

TEST(EmitOnOneDevice, OpsAreThoseOfTheFirstDevicesPart) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const layers::LayerGraph graph = Grouped();
  const absl::StatusOr<NodeSharding> lrn = Sharding(graph, "lrn", mesh, {kBatch, kGroup});
  ASSERT_TRUE(lrn.ok()) << lrn.status();
  const std::vector<layers::EmittedOp> ops = EmitOnOneDevice(mesh, *lrn, 0);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(std::get<program::LrnForward>(ops[0].op).groups, 1) << "of two blocks";
  const program::Shape part = {4, 4, 4, 4};
  EXPECT_THAT(ShapesOf(ops), ElementsAre(part, part)) << "x, y";
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
