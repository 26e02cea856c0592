// Activations that move in parts of the batch, and fully connected layers that compute part by part.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/emit_case.h"
#include "tests/partition/lowered.h"
#include "tests/partition/random_run.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// images [2,4,4] → conv → relu → flatten → fc1 → dropout → fc2 → loss: one weird trick on two devices.
layers::LayerGraph Small() {
  layers::GraphBuilder net("small");
  auto x = net.Relu("relu", net.Conv2d("conv", net.Input("images", {2, 4, 4}), {.out_channels = 2, .kernel = 3, .pad = 1}));
  x = net.FullyConnected("fc1", net.Flatten("flatten", x), {.out_features = 6});
  x = net.FullyConnected("fc2", net.Dropout("dropout", x, {.rate = 0.5}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  return Built(std::move(net));
}

Plan InParts(Plan plan, int parts) {
  plan.transfer_parts = parts;
  return plan;
}
Plan OneWeirdTrick(int parts, int64_t batch = 8) { return InParts(Named("owt", Small(), 2, batch), parts); }

// The actions up to the order of a Program, in words.
std::vector<std::string> Split(const layers::LayerGraph& graph, const Plan& plan, LowerOptions options) {
  LoweringCase c(graph, plan, std::move(options));
  for (auto* pass :
       {&ExpandStages, &AdvanceMasks, &ExpandShards, &InsertResharding, &HideTransfers, &BucketGradients,
        &InsertGradientReduction, &FuseEpilogues, &FuseMasks, &FoldNormalisations, &ChoosePrecision, &SplitTransfers}) {
    const absl::Status status = pass(c.lowering);
    EXPECT_TRUE(status.ok()) << status;
  }
  return Actions(c.lowering);
}

std::vector<std::string> OfLayer(const std::vector<std::string>& actions, const std::string& layer) {
  std::vector<std::string> found;
  for (const std::string& action : actions) {
    if (action.find(" " + layer + ":") != std::string::npos) found.push_back(action);
  }
  return found;
}

TEST(SplitTransfers, FullyConnectedLayersComputeEachPartOfWhatMoves) {
  const std::vector<std::string> actions = Split(Small(), OneWeirdTrick(2), {.global_batch = 8});
  EXPECT_THAT(OfLayer(actions, "fc1"),
              ElementsAre("all_gather/0 fc1: flatten.y(S0:4+4,R) -> flatten.y@(replicated, replicated)(R,R) part 0",
                          "all_gather/0 fc1: flatten.y(S0:4+4,R) -> flatten.y@(replicated, replicated)(R,R) part 1",
                          "forward fc1: flatten.y@(replicated, replicated)(R,R) -> fc1.y(S1,R) part 0",
                          "forward fc1: flatten.y@(replicated, replicated)(R,R) -> fc1.y(S1,R) part 1",
                          "backward fc1: dropout.dx(S1,R) -> fc1.dx(P,R) part 0",
                          "backward fc1: dropout.dx(S1,R) -> fc1.dx(P,R) part 1",
                          "reduce_scatter/0 fc1: fc1.dx(P,R) -> fc1.dx@(split(0: 4+4), replicated)(S0:4+4,R) part 0",
                          "reduce_scatter/0 fc1: fc1.dx(P,R) -> fc1.dx@(split(0: 4+4), replicated)(S0:4+4,R) part 1",
                          "backward fc1: flatten.y@(replicated, replicated)(R,R) dropout.dx(S1,R)"));
}

// What has no weights goes along: it leaves no part waiting for another. A convolution computes all at once.
TEST(SplitTransfers, TakeAlongWhatHasNoWeights) {
  const std::vector<std::string> actions = Split(Small(), OneWeirdTrick(2), {.global_batch = 8});
  EXPECT_THAT(OfLayer(actions, "dropout"), Each(HasSubstr(" part ")));
  EXPECT_THAT(OfLayer(actions, "flatten"),
              Contains(HasSubstr("forward flatten: relu.y(S0:4+4,R) -> flatten.y(S0:4+4,R) part 1")));
  EXPECT_THAT(OfLayer(actions, "conv"), Each(Not(HasSubstr(" part "))));
  EXPECT_THAT(OfLayer(actions, "loss"), Contains("forward loss: fc2.y@(replicated, replicated)(R,R) labels(R,R) -> "
                                                 "metrics(R,R) loss.probabilities(R,R)"));
}

// Two dropouts lie between the products, and the first touches nothing that moves.
TEST(SplitTransfers, TakeAlongAWholeChain) {
  layers::GraphBuilder net("chain");
  auto x = net.FullyConnected("fc1", net.Input("images", {8}), {.out_features = 6});
  x = net.Dropout("dropout2", net.Dropout("dropout1", x, {.rate = 0.5}), {.rate = 0.5});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc2", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  const std::vector<std::string> actions = Split(graph, InParts(Named("model", graph, 2, 8), 2), {.global_batch = 8});
  for (const char* layer : {"dropout1", "dropout2"}) {
    EXPECT_THAT(OfLayer(actions, layer), AllOf(SizeIs(Ge(4)), Each(HasSubstr(" part "))));
  }
}

// Nothing of the second part stands before the exchange of what is made of the first.
TEST(SplitTransfers, ComputeAllOfAPartBeforeTheNext) {
  std::vector<std::string> of_forward;
  for (const std::string& action : Split(Small(), OneWeirdTrick(2), {.global_batch = 8})) {
    if (action.starts_with("forward fc1") || action.starts_with("forward dropout")) of_forward.push_back(action);
  }
  ASSERT_EQ(of_forward.size(), 4u);
  EXPECT_THAT(of_forward[1], HasSubstr("forward dropout: fc1.y(S1,R) -> dropout.y(S1,R) part 0"));
  EXPECT_THAT(of_forward[2], HasSubstr("forward fc1: flatten.y@(replicated, replicated)(R,R) -> fc1.y(S1,R) part 1"));
}

// fc2 reads what moves, fc3 what fc2 makes: a product of all samples is faster than those of its parts.
TEST(SplitTransfers, LeaveProductsWholeThatNoTransferTouches) {
  layers::GraphBuilder net("three");
  auto x = net.FullyConnected("fc1", net.Input("images", {8}), {.out_features = 6});
  x = net.FullyConnected("fc3", net.FullyConnected("fc2", x, {.out_features = 4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  const layers::LayerGraph graph = Built(std::move(net));
  const Plan plan = InParts(PlanOf(graph, 1, 2, {kReplicate, kReplicate}, {{"fc1", {kReplicate, kColumn}}}), 2);
  const std::vector<std::string> actions = Split(graph, plan, {.global_batch = 8});
  EXPECT_THAT(actions, Contains("forward fc2: fc1.y@(replicated, replicated)(R,R) -> fc2.y(R,R) part 1"));
  EXPECT_THAT(actions, Contains("forward fc3: fc2.y(R,R) -> fc3.y(R,R)"));
}

TEST(SplitTransfers, DoNothingInOnePartOrWhereNothingMoves) {
  EXPECT_THAT(Split(Small(), OneWeirdTrick(1), {.global_batch = 8}), Each(Not(HasSubstr("part "))));
  const Plan data = InParts(Named("data", Small(), 2, 8), 4);
  EXPECT_THAT(Split(Small(), data, {.global_batch = 8}), Each(Not(HasSubstr("part "))));
}

// Over the second axis all layers split the batch, and yet it is made whole where samples move over the first.
TEST(SplitTransfers, AnAxisBehindOneOverWhichSamplesMoveHoldsPartsToo) {
  Plan plan = PlanOf(Small(), 2, 2, {kBatch, kBatch}, {{"fc1", {kColumn, kBatch}}, {"fc2", {kColumn, kBatch}}});
  const std::vector<std::string> actions = Split(Small(), InParts(plan, 2), {.global_batch = 16});
  EXPECT_THAT(actions, Contains(HasSubstr("flatten.y(S0:8+8,S0:4+4)")));
  EXPECT_THAT(actions, Each(Not(HasSubstr("S0)"))));
  EXPECT_THAT(actions, Each(Not(HasSubstr("S0,"))));
}

// A sum over devices is rounded part by part, so that a part is read as soon as it has moved.
TEST(SplitTransfers, RoundSumsInParts) {
  const std::vector<std::string> actions =
      Split(Small(), OneWeirdTrick(2), {.global_batch = 8, .dtype = program::DType::kBF16});
  std::vector<std::string> rounds;
  for (const std::string& action : actions) {
    if (action.starts_with("round") && action.find(".dx") != std::string::npos) rounds.push_back(action);
  }
  EXPECT_FALSE(rounds.empty());
  EXPECT_THAT(rounds, Each(HasSubstr(" part ")));
}

TEST(TransferParts, AreAsManyAsDivideWhatEachDeviceHolds) {
  const layers::LayerGraph graph = Small();
  const auto parts = [&](int asked, int64_t batch) {
    const Plan plan = OneWeirdTrick(asked, batch);
    return ShardGraph(graph, plan, batch)->transfer_parts;
  };
  EXPECT_EQ(parts(4, 8), 4);
  EXPECT_EQ(parts(4, 12), 3);
  EXPECT_EQ(parts(4, 10), 1);
  EXPECT_EQ(parts(64, 8), 4);
  EXPECT_EQ(parts(64, 128), 64);
}

// Of normalisations over two samples a device has one for two, which no part cuts.
TEST(TransferParts, CutNoGroupOfSamples) {
  layers::GraphBuilder net("ghosts");
  auto x = net.Conv2d("conv", net.Input("images", {2, 4, 4}), {.out_channels = 2, .kernel = 3, .pad = 1});
  x = net.BatchNorm("norm", x, {.samples_per_group = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  for (const auto& [batch, parts] : std::vector<std::pair<int64_t, int>>{{4, 1}, {8, 2}}) {
    const Plan plan = InParts(PlanOf(graph, 2, 1, {kBatch, kReplicate}, {{"fc", {kColumn, kReplicate}}}), 2);
    EXPECT_EQ(ShardGraph(graph, plan, batch)->transfer_parts, parts) << batch;
  }
}

// Device 1 holds the second half of each part: samples 2, 3 and 6, 7 of 8.
TEST(SamplesOn, OfASplitBySectionsAreSeveralRanges) {
  const Mesh mesh = Mesh::ReplicasByColumns(1, 2);
  const Placement halves = Placement::SplitSections({4, 4}, 0);
  EXPECT_THAT(SamplesOn(mesh, {kR, halves}, 8, 1), ElementsAre(Samples{2, 2}, Samples{6, 2}));
  EXPECT_THAT(SamplesOn(mesh, {kR, Placement::SplitSections({4, 4, 4}, 0)}, 12, 1),
              ElementsAre(Samples{2, 2}, Samples{6, 2}, Samples{10, 2}));
  EXPECT_THAT(SamplesOn(mesh, {kR, kS0}, 8, 1), ElementsAre(Samples{4, 4}));
  EXPECT_THAT(SamplesOn(mesh, {kR, kR}, 8, 1), ElementsAre(Samples{0, 8}));
}

TEST(SamplesOn, AxesCutWhatThoseBeforeHaveLeft) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  EXPECT_THAT(SamplesOn(mesh, {kS0, Placement::SplitSections({4, 4}, 0)}, 16, 2),
              ElementsAre(Samples{8, 2}, Samples{12, 2}));
  EXPECT_THAT(SamplesOn(mesh, {Placement::SplitSections({8, 8}, 0), kS0}, 16, 1), ElementsAre(Samples{8, 4}));
  // Both by sections: those of the second are those of the first.
  EXPECT_THAT(SamplesOn(mesh, {Placement::SplitSections({8, 8}, 0), Placement::SplitSections({4, 4}, 0)}, 16, 3),
              ElementsAre(Samples{6, 2}, Samples{14, 2}));
}

// The host gives each range by itself: images into rows of one tensor, labels into one that the loss reads.
TEST(EmitParts, LoadTheSamplesOfEachSection) {
  const program::Program program = Lowered(Small(), OneWeirdTrick(2), {.global_batch = 8});
  std::vector<int64_t> first_images;
  for (const program::Piece& piece : program.inputs[0].pieces) {
    if (program.buffer(piece.buffer).device == 1) first_images.push_back(piece.region.offset[0]);
  }
  EXPECT_THAT(first_images, ElementsAre(2, 6));
  EXPECT_THAT(TasksOf(program, "images"),
              Contains("d1 compute copy read images.host write images[2:4,0:2,0:4,0:4]: 256 256 0"));
}

// Rows of a part are gathered and multiplied while those of the next move.
TEST(EmitParts, MoveAndComputeRows) {
  const program::Program program = Lowered(Small(), OneWeirdTrick(2), {.global_batch = 8});
  const std::vector<std::string> tasks = TasksOf(program, "fc1");
  EXPECT_THAT(tasks, Contains(HasSubstr("d0 comm exchange read flatten.y[2:4,0:32] write "
                                        "flatten.y@(replicated, replicated)[6:8,0:32]")));
  EXPECT_THAT(tasks, Contains(HasSubstr("d1 compute fully_connected_forward read "
                                        "flatten.y@(replicated, replicated)[4:8,0:32] read fc1.weight read fc1.bias write "
                                        "fc1.y[4:8,0:3]")));
}

TEST(EmitParts, SumRowsOfAPart) {
  const Plan rows = PlanOf(TwoLayers(), 1, 2, {kReplicate, kReplicate}, {{"fc2", {kReplicate, kRow}}});
  const program::Program program = Lowered(TwoLayers(), InParts(rows, 2), {.global_batch = 8});
  std::vector<std::string> sums;
  for (const std::string& task : TasksOf(program, "fc2")) {
    if (task.starts_with("d0 comm all_reduce")) sums.push_back(task);
  }
  EXPECT_THAT(sums, ElementsAre("d0 comm all_reduce accumulate fc2.z[0:4,0:4]: 64 64 64",
                                "d0 comm all_reduce accumulate fc2.z[4:8,0:4]: 64 64 64"));
}

// The tasks of fc1's forward of device 0 on a lane.
std::vector<program::Task> ForwardOfFc1(const program::Program& program, program::Lane lane) {
  std::vector<program::Task> found;
  for (const program::Task& task : program.tasks) {
    const bool is_forward = task.provenance.layer == "fc1" && task.provenance.pass == program::Pass::kForward;
    if (is_forward && task.device == 0 && task.lane == lane) found.push_back(task);
  }
  return found;
}

TEST(EmitParts, APartWaitsForItsOwnTransferAlone) {
  const program::Program program = Lowered(Small(), OneWeirdTrick(2), {.global_batch = 8});
  const auto products = ForwardOfFc1(program, program::Lane::kCompute), moves = ForwardOfFc1(program, program::Lane::kComm);
  ASSERT_EQ(products.size(), 2u);
  ASSERT_EQ(moves.size(), 2u);
  for (int part : {0, 1}) {
    EXPECT_THAT(products[part].waits, Contains(moves[part].id));
    EXPECT_THAT(products[part].waits, Not(Contains(moves[1 - part].id)));
  }
}

}  // namespace
}  // namespace colonnade::partition
