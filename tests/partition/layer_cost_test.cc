// The additive costs that propose plans, in exact numbers: a compute task costs its flops, a transfer its bytes.
#include "partition/planner/layer_cost.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/planner.h"
#include "partition/planner/proposals.h"
#include "partition/planner/step_costs.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::CollectiveKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Costs {
  std::vector<std::string> transfers;
  CostFunctions Functions() {
    return {.compute = [](const program::Task& task) { return static_cast<double>(task.work.flops); },
            .transfer =
                [this](CollectiveKind kind, int members, double bytes) {
                  transfers.push_back(absl::StrCat(program::Name(kind), " of ", members, ": ", bytes));
                  return bytes;
                }};
  }
};

// fc1: x [8,4], w [6,4]. fc2: x [8,6], w [4,6]. A product of 192 flop (fc1 and fc2 alike) is done once forward, once for the
// weights and, but for fc1, once for dx; an update takes 6 flop an element.
LayerCost Of(const std::string& layer, int64_t replicas, int64_t columns, const Strategies& strategies, Costs& costs) {
  const LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), replicas, columns, {kReplicate, kReplicate}));
  absl::StatusOr<LayerCost> cost = CostOfLayer(c.graph, layers::LayerId{c.Node(layer)}, c.plan.mesh, strategies, 8,
                                               costs.Functions(), ContentsOf(c.graph, costs.Functions()));
  EXPECT_TRUE(cost.ok()) << cost.status();
  return cost.ok() ? *std::move(cost) : LayerCost{};
}

TEST(CostOfLayer, IsForwardBackwardAndUpdateOfOneShard) {
  Costs costs;
  const double product = 2 * 4 * 6 * 8;
  EXPECT_EQ(Of("fc1", 2, 1, {kReplicate, kReplicate}, costs).compute_sec, 2 * product + 6 * (24 + 6));
  EXPECT_EQ(Of("fc2", 2, 1, {kReplicate, kReplicate}, costs).compute_sec, 3 * product + 6 * (24 + 4));
  EXPECT_EQ(Of("fc2", 2, 1, {kBatch, kReplicate}, costs).compute_sec, 3 * product / 2 + 6 * (24 + 4));
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kColumn}, costs).compute_sec, 3 * product / 2 + 6 * (12 + 2));
  EXPECT_EQ(Of("fc2", 2, 2, {kBatch, kColumn}, costs).compute_sec, 3 * product / 4 + 6 * (12 + 2));
  const double bias = 8 * 4;  // forward, and once more backward
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kRow}, costs).compute_sec, 3 * product / 2 + 2 * bias + 6 * (12 + 4));
}

TEST(CostOfLayer, InEvaluationIsForwardAlone) {
  for (const Strategies& strategies : {Strategies{kReplicate, kReplicate}, {kBatch, kColumn}, {kBatch, kRow}}) {
    const LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 2, 2, {kReplicate, kReplicate}));
    Costs costs;
    CostFunctions functions = costs.Functions();
    const layers::LayerId fc2{c.Node("fc2")};
    const absl::StatusOr<LayerCost> trained =
        CostOfLayer(c.graph, fc2, c.plan.mesh, strategies, 8, functions, ContentsOf(c.graph, functions));
    functions.mode = program::Mode::kEval;
    const absl::StatusOr<LayerCost> tested =
        CostOfLayer(c.graph, fc2, c.plan.mesh, strategies, 8, functions, ContentsOf(c.graph, functions));
    ASSERT_TRUE(trained.ok() && tested.ok());
    EXPECT_NEAR(tested->compute_sec, (trained->compute_sec - trained->update_sec) / 3,
                16);                                         // one of three products; the bias
    EXPECT_EQ(tested->transfer_sec, trained->transfer_sec);  // the sum over a row's parts
    EXPECT_EQ(tested->update_sec, 0);
    EXPECT_EQ(tested->reduction_sec, 0);
  }
}

// The gradient of what a frozen layer reads is still made where a layer before it is trained.
TEST(CostOfLayer, OfAFrozenLayerHasNoGradientsOfParametersAndNoUpdate) {
  const LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 2, 1, {kBatch, kReplicate}));
  const double product = 2 * 4 * 6 * 4;  // of half the batch
  const auto of_fc2 = [&](const std::set<std::string>& frozen) {
    Costs costs;
    CostFunctions functions = costs.Functions();
    functions.frozen_layers = frozen;
    return *CostOfLayer(c.graph, layers::LayerId{c.Node("fc2")}, c.plan.mesh, {kBatch, kReplicate}, 8, functions,
                        ContentsOf(c.graph, functions));
  };
  const LayerCost last = of_fc2({"fc2"}), both = of_fc2({"fc1", "fc2"});
  EXPECT_EQ(last.compute_sec, 2 * product);
  EXPECT_EQ(last.update_sec, 0);
  EXPECT_EQ(last.reduction_sec, 0);
  EXPECT_EQ(both.compute_sec, product);
  EXPECT_EQ(of_fc2({"fc1"}).compute_sec, 2 * product + 6 * (24 + 4));
}

// A stage of backward that runs for what stands before makes the gradients of a frozen normalisation, too; where nothing
// before it is trained, none runs.
TEST(CostOfLayer, OfAFrozenNormalisationCountsBackwardWhereALayerBeforeItIsTrained) {
  for (const bool by_sample : {false, true}) {
    layers::GraphBuilder net("frozen");
    auto x = net.Conv2d("conv", net.Input("images", {2, 4, 4}), {.out_channels = 4, .kernel = 3, .pad = 1});
    x = by_sample ? net.LayerNorm("norm", x, {}) : net.BatchNorm("norm", x, {});
    net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
    const layers::LayerGraph graph = Built(std::move(net));
    const Mesh mesh = Mesh::ReplicasByColumns(2, 1);
    const auto of_norm = [&](std::set<std::string> frozen) {
      Costs costs;
      CostFunctions functions = costs.Functions();
      functions.compute = [](const program::Task& task) { return static_cast<double>(task.work.bytes_read); };
      functions.frozen_layers = std::move(frozen);
      return *CostOfLayer(graph, layers::LayerId{2}, mesh, {kBatch, kReplicate}, 8, functions, ContentsOf(graph, functions));
    };
    const LayerCost trained = of_norm({}), frozen = of_norm({"norm"}), prefix = of_norm({"conv", "norm"});
    EXPECT_EQ(frozen.compute_sec, trained.compute_sec - trained.update_sec);
    EXPECT_EQ(frozen.transfer_sec, trained.transfer_sec);
    EXPECT_EQ(frozen.reduction_sec, 0);
    EXPECT_LT(prefix.compute_sec, frozen.compute_sec / 2 + 1);
    const double forward_sums = prefix.transfer_sec;  // those of backward do not move
    EXPECT_EQ(trained.transfer_sec > forward_sums, !by_sample);
  }
}

// Of one layer on one device, for 8 samples.
double BytesReadBy(const layers::LayerGraph& graph, layers::LayerId layer) {
  const CostFunctions cost{.compute = [](const program::Task& task) { return static_cast<double>(task.work.bytes_read); }};
  const Mesh mesh = Mesh::ReplicasByColumns(1, 1);
  const absl::StatusOr<LayerCost> found =
      CostOfLayer(graph, layer, mesh, {kReplicate, kReplicate}, 8, cost, ContentsOf(graph, cost));
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? found->compute_sec : -1;
}

// Nobody wants a gradient before the first parameters: forward moves 8 x 16 elements, and there is no backward.
TEST(CostOfLayer, OfALayerWithoutParametersBeforeItIsForwardAlone) {
  layers::GraphBuilder net("flat");
  auto x = net.Flatten("flatten", net.Relu("relu", net.Input("images", {1, 4, 4})));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  EXPECT_EQ(BytesReadBy(graph, layers::LayerId{2}), 4 * 8 * 16);
}

// 8 x 4 and 8 x 6 elements are copied forward, and their gradients backward.
TEST(CostOfLayer, OfAConcatenationIsThatOfAllItsCopies) {
  layers::GraphBuilder net("joined");
  const auto x = net.Input("images", {4});
  const auto a = net.FullyConnected("a", x, {.out_features = 4}), b = net.FullyConnected("b", x, {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", net.Concat("concat", {a, b}));
  const layers::LayerGraph graph = Built(std::move(net));
  EXPECT_EQ(BytesReadBy(graph, layers::LayerId{3}), 2 * 4 * 8 * (4 + 6));
}

// x has 8 x 16 elements and y 8 x 4, whose argmax is bytes: forward makes y and argmax, backward makes dx of dy and argmax.
TEST(CostOfLayer, CountsTheBytesOfEachUseInTheTypeOfTheProgram) {
  layers::GraphBuilder net("pooled");
  auto x = net.Conv2d("conv", net.Input("images", {1, 4, 4}), {.out_channels = 1, .kernel = 1});
  auto y = net.Flatten("flatten", net.MaxPool("pool", x, {.kernel = 2, .stride = 2}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", y, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  CostFunctions cost{.compute = [](const program::Task& task) {
    return static_cast<double>(task.work.bytes_read + task.work.bytes_written);
  }};
  for (const auto& [dtype, size] : {std::pair{program::DType::kF32, 4}, {program::DType::kBF16, 2}}) {
    cost.dtype = dtype;
    const absl::StatusOr<LayerCost> pool = CostOfLayer(graph, layers::LayerId{2}, Mesh::ReplicasByColumns(1, 1),
                                                       {kReplicate, kReplicate}, 8, cost, ContentsOf(graph, cost));
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ(pool->compute_sec, 2 * (size * 8 * 16 + size * 8 * 4 + 8 * 4));
  }
}

// z has 8 x 4 elements on each device, of which the batch leaves half.
TEST(CostOfLayer, ASumInTheMiddleOfALayerIsATransfer) {
  Costs costs;
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kRow}, costs).transfer_sec, 4 * 32);
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kRow}, costs).reduction_sec, 0);
  EXPECT_THAT(costs.transfers, ElementsAre("all_reduce of 2: 128", "all_reduce of 2: 128"));
  EXPECT_EQ(Of("fc2", 2, 2, {kBatch, kRow}, costs).transfer_sec, 4 * 16);
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kColumn}, costs).transfer_sec, 0);
}

TEST(CostOfLayer, GradientsThatArePartialAreReduced) {
  Costs costs;
  EXPECT_EQ(Of("fc2", 2, 1, {kBatch, kReplicate}, costs).reduction_sec, 4 * (24 + 4));
  EXPECT_EQ(Of("fc2", 2, 2, {kBatch, kColumn}, costs).reduction_sec, 4 * (12 + 2));
  EXPECT_THAT(costs.transfers, ElementsAre("all_reduce of 2: 96", "all_reduce of 2: 16",  //
                                           "all_reduce of 2: 48", "all_reduce of 2: 8"));
  costs.transfers.clear();
  EXPECT_EQ(Of("fc2", 2, 2, {kBatch, kBatch}, costs).reduction_sec, 4 * (24 + 4));
  EXPECT_THAT(costs.transfers, ElementsAre("all_reduce of 4: 96", "all_reduce of 4: 16"));
  EXPECT_EQ(Of("fc2", 1, 2, {kReplicate, kColumn}, costs).reduction_sec, 0);
}

TEST(CostOfReshard, EachEntryOfThePathCountsWhatADeviceHoldsBefore) {
  program::DType dtype = program::DType::kF32;
  const auto of = [&](const Mesh& mesh, const TensorPlacement& from, const TensorPlacement& to) {
    Costs costs;
    CostFunctions functions = costs.Functions();
    functions.dtype = dtype;
    const double bytes = CostOfReshard(mesh, from, to, {8, 6}, functions);
    costs.transfers.push_back(absl::StrCat(bytes));
    return costs.transfers;
  };
  const Mesh two = Mesh::ReplicasByColumns(2, 1), four = Mesh::ReplicasByColumns(2, 2);
  EXPECT_THAT(of(two, {kS0, kR}, {kR, kR}), ElementsAre("all_gather of 2: 96", "96"));
  EXPECT_THAT(of(two, {kS0, kR}, {kS1, kR}), ElementsAre("all_to_all of 2: 96", "96"));
  EXPECT_THAT(of(two, {kP, kR}, {kR, kR}), ElementsAre("all_reduce of 2: 192", "192"));
  EXPECT_THAT(of(two, {kP, kR}, {kS1, kR}), ElementsAre("reduce_scatter of 2: 192", "192"));
  EXPECT_THAT(of(two, {kR, kR}, {kS0, kR}), ElementsAre("0")) << "a slice moves nothing";
  EXPECT_THAT(of(four, {kS0, kS1}, {kR, kR}), ElementsAre("all_gather of 2: 48", "all_gather of 2: 96", "144"));
  EXPECT_THAT(of(four, {kS0, kS1}, {kS0, kS1}), ElementsAre("0"));
  const layers::Placement sections = layers::Placement::SplitSections({2, 4});
  EXPECT_THAT(of(two, {sections, kR}, {kR, kR}), ElementsAre("all_gather of 2: 32", "all_gather of 2: 64", "96"));
  dtype = program::DType::kBF16;
  EXPECT_THAT(of(two, {kS0, kR}, {kR, kR}), ElementsAre("all_gather of 2: 48", "48"));
  EXPECT_THAT(of(two, {kP, kR}, {kS1, kR}), ElementsAre("reduce_scatter of 2: 192", "192")) << "sums are in f32";
}

// Products of 384 flop, two of fc1 and three of fc2, of which each of two devices does half.
TEST(LowerBoundSeconds, IsTheLeastComputeOfAllProductsWithoutTheirUpdates) {
  Costs costs;
  const double product = 2 * 4 * 6 * 8;
  EXPECT_EQ(LowerBoundSeconds(TwoLayers(), 1, {.global_batch = 8}, costs.Functions()), 5 * product);
  EXPECT_EQ(LowerBoundSeconds(TwoLayers(), 2, {.global_batch = 8}, costs.Functions()), 5 * product / 2);
}

// fc2 on two replicas: in bf16 half the bytes move.
TEST(StepCostsOn, AreOfTheTypeTheModeAndTheFrozenLayersOfTheStep) {
  const layers::LayerGraph graph = TwoLayers();
  const Mesh mesh = Mesh::ReplicasByColumns(2, 1);
  Costs costs;
  PlannerOptions options{.devices = 2, .lower = {.global_batch = 8}, .cost = [&](int) { return costs.Functions(); }};
  const auto on_mesh = [&] {
    absl::StatusOr<StepCosts> found = StepCostsOn(mesh, graph, options);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : StepCosts{};
  };
  const auto moved = [&](const StepCosts& found) { return CostOfReshard(mesh, {kS0, kR}, {kR, kR}, {8, 6}, found.cost); };
  const LayerCost trained = on_mesh().options[3][0].cost;
  EXPECT_EQ(moved(on_mesh()), 96);
  EXPECT_GT(trained.update_sec, 0);
  options.lower.dtype = program::DType::kBF16;
  EXPECT_EQ(moved(on_mesh()), 48);
  options.lower.update.frozen_layers = {"fc2"};
  EXPECT_EQ(on_mesh().options[3][0].cost.update_sec, 0);
  options.lower.update.frozen_layers = {};
  options.lower.mode = program::Mode::kEval;
  EXPECT_LT(on_mesh().options[3][0].cost.compute_sec, trained.compute_sec / 2);
}

// Three products of fc2, and 6 flop for each of 28 numbers.
TEST(StepCostsOn, ComputeEachMicroBatchAndUpdateOnce) {
  Costs costs;
  PlannerOptions options{
      .devices = 1, .lower = {.global_batch = 32, .micro_batches = 4}, .cost = [&](int) { return costs.Functions(); }};
  const absl::StatusOr<StepCosts> found = StepCostsOn(Mesh::ReplicasByColumns(1, 1), TwoLayers(), options);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->options[3][0].cost.compute_sec, 4 * 3 * (2 * 4 * 6 * 8) + 6 * (24 + 4));
  EXPECT_EQ(found->options[3][0].cost.update_sec, 6 * (24 + 4));
}

// Compute is cheaper the more it is split, gathers are free, sums are dear.
CostFunctions DearSums() {
  return {.compute = [](const program::Task& task) { return static_cast<double>(task.work.flops); },
          .transfer =
              [](CollectiveKind kind, int, double) {
                const bool sums = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
                return sums ? 1e9 : 0.0;
              }};
}

// fc2 has three outputs, so that rows alone would split it.
TEST(ProposeAssignments, ASumInTheMiddleOfALayerCounts) {
  layers::GraphBuilder net("odd");
  auto x = net.FullyConnected("fc1", net.Input("images", {4}), {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc2", net.Relu("relu", x), {.out_features = 3}));
  const layers::LayerGraph graph = Built(std::move(net));
  const LoweringCase c(graph, PlanOf(graph, 1, 2, {kReplicate, kReplicate}));
  const CostFunctions cost = DearSums();
  const auto options = LegalOptions(c.graph, c.plan.mesh, 8, cost);
  const std::vector<Assignment> best =
      ProposeAssignments(c.graph, c.plan.mesh, 8, options, cost, /*exposed=*/1, 1).assignments;
  ASSERT_EQ(best.size(), 1u);
  const int fc2 = c.Node("fc2");
  EXPECT_EQ(options[fc2][best[0][fc2]].strategies[1], kReplicate);
}

// Were the gradients' way back free, fc2 would be split by columns, too, though the dx that it makes is a sum.
TEST(ProposeAssignments, AGradientsWayBackCountsAsMuchAsTheValues) {
  const LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 1, 2, {kReplicate, kReplicate}));
  const CostFunctions cost = DearSums();
  const auto options = LegalOptions(c.graph, c.plan.mesh, 8, cost);
  const std::vector<Assignment> best =
      ProposeAssignments(c.graph, c.plan.mesh, 8, options, cost, /*exposed=*/1, 1).assignments;
  ASSERT_EQ(best.size(), 1u);
  const int fc1 = c.Node("fc1"), fc2 = c.Node("fc2");
  EXPECT_EQ(options[fc1][best[0][fc1]].strategies[1], kColumn);
  EXPECT_EQ(options[fc2][best[0][fc2]].strategies[1], kReplicate);
}

}  // namespace
}  // namespace colonnade::partition
