// What the additive cost says of transfers, against the actions and the Program that lowering makes.
#include "partition/planner/additive_cost.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lower.h"
#include "partition/task_work.h"
#include "tests/partition/lowered.h"
#include "tests/partition/lowering_case.h"
#include "tests/partition/random_case.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using program::CollectiveKind;

// Kinds and groups differ, and sums of these are exact.
CostFunctions WeightedBytes() {
  return {.compute = [](const program::Task&) { return 0.0; },
          .transfer = [](CollectiveKind kind, int members,
                         double bytes) { return bytes * (1 + static_cast<int>(kind)) * members; }};
}

CostFunctions SentBytes() {
  return {.compute = [](const program::Task&) { return 0.0; },
          .transfer =
              [](CollectiveKind kind, int members, double bytes) {
                return static_cast<double>(BytesSent(kind, static_cast<int64_t>(bytes), members, /*is_root=*/false));
              }};
}

// One for each layer: that of a plan.
std::vector<std::vector<StrategyOption>> OnlyOptions(const layers::LayerGraph& graph, const Plan& plan, int64_t batch,
                                                     const CostFunctions& cost) {
  std::vector<std::vector<StrategyOption>> options(graph.nodes.size(), std::vector<StrategyOption>(1));
  for (size_t node = 1; node < graph.nodes.size(); ++node) {
    StrategyOption& option = options[node][0];
    option.strategies = plan.layers.at(graph.nodes[node].name);
    absl::StatusOr<LayerCost> layer = CostOfLayer(graph, layers::LayerId{static_cast<int32_t>(node)}, plan.mesh,
                                                  option.strategies, batch, cost, ContentsOf(graph, cost));
    EXPECT_TRUE(layer.ok()) << layer.status();
    option.cost = *std::move(layer);
  }
  return options;
}

// Between the layers of one plan and within them.
double Transfers(const layers::LayerGraph& graph, const Plan& plan, int64_t batch, const CostFunctions& cost) {
  const std::vector<std::vector<StrategyOption>> options = OnlyOptions(graph, plan, batch, cost);
  double within = 0;
  for (const std::vector<StrategyOption>& of_node : options) within += of_node[0].cost.transfer_sec;
  const Assignment only(graph.nodes.size(), 0);
  return within + AdditiveCost(graph, plan.mesh, batch, options, cost, /*exposed=*/0).TransferCost(only);
}

// Of all reshardings that lowering puts between actions, but for a few numbers that every plan sums: labels and metrics.
double TransfersOfActions(const layers::LayerGraph& graph, const Plan& plan, int64_t batch, const CostFunctions& cost) {
  LoweringCase c(graph, plan, {.mode = cost.mode, .global_batch = batch, .update = {.frozen_layers = cost.frozen_layers}});
  for (auto* pass : {&ExpandStages, &AdvanceMasks, &ExpandShards, &InsertResharding}) {
    const absl::Status status = pass(c.lowering);
    EXPECT_TRUE(status.ok()) << status;
  }
  double seconds = 0;
  const std::vector<bool> for_the_host = ReadByTheHostAlone(c.lowering);
  for (const Action& action : c.lowering.actions) {
    const auto* reshard = std::get_if<Reshard>(&action.body);
    if (reshard == nullptr || !CollectiveOf(reshard->entry.kind)) continue;
    const Value& value = c.lowering.value(action.inputs[0].value);
    if (for_the_host[action.outputs[0].value] || value.name.starts_with("label_count")) continue;
    const program::Region local = RegionOn(plan.mesh, value.placement, value.shape, 0);
    seconds += cost.transfer(*CollectiveOf(reshard->entry.kind),
                             static_cast<int>(ReshardGroup(plan.mesh, reshard->entry, 0).size()),
                             static_cast<double>(local.elements()) * sizeof(float));
  }
  return seconds;
}

// Most layers up to one, and some behind it.
std::set<std::string> DrawFrozen(Random& random, const layers::LayerGraph& graph) {
  std::set<std::string> frozen;
  const size_t prefix = random() % graph.nodes.size();
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!graph.nodes[node].parameters.empty() && random() % 8 < (node < prefix ? 7u : 2u)) {
      frozen.insert(graph.nodes[node].name);
    }
  }
  return frozen;
}

// Of a third in evaluation, of a third with frozen layers.
TEST(AdditiveCost, TransfersAreThoseThatLoweringMakes) {
  Random random(21);
  const std::vector<std::vector<int64_t>> meshes = {{2, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}, {2, 3}};
  int with_several_readers = 0;
  for (int draw = 0; draw < Draws(300); ++draw) {
    const absl::StatusOr<RandomNetwork> network = NetworkDrawer(random, /*exact=*/false).Draw();
    ASSERT_TRUE(network.ok()) << network.status();
    const std::vector<int64_t> mesh = Pick(random, meshes);
    const Plan plan = DrawPlan(random, network->graph, mesh[0], mesh[1], 12);
    std::vector<int> readers(network->graph.nodes.size());
    for (const layers::LayerNode& node : network->graph.nodes) {
      for (layers::LayerId input : node.inputs) with_several_readers += ++readers[input.value] == 2 && input.value > 0;
    }
    CostFunctions cost = WeightedBytes();
    const layers::LayerGraph tested = layers::InEvaluation(network->graph);
    cost.mode = draw % 3 == 0 ? program::Mode::kEval : program::Mode::kTrain;
    if (draw % 3 == 1) cost.frozen_layers = DrawFrozen(random, network->graph);
    const layers::LayerGraph& graph = draw % 3 == 0 ? tested : network->graph;
    EXPECT_EQ(Transfers(graph, plan, 12, cost), TransfersOfActions(graph, plan, 12, cost))
        << "draw " << draw << ": " << PlanToJson(plan) << "\nfrozen: " << absl::StrJoin(cost.frozen_layers, " ");
  }
  EXPECT_GT(with_several_readers, Draws(300) / 2);
}

// images [4,8,8] → conv → relu; conv2a and conv2b of relu [16,8,8] → add → fc → loss
layers::LayerGraph Residual() {
  layers::GraphBuilder net("residual");
  auto x = net.Relu("relu", net.Conv2d("conv", net.Input("images", {4, 8, 8}), {.out_channels = 16, .kernel = 3, .pad = 1}));
  const auto a = net.Conv2d("conv2a", x, {.out_channels = 16, .kernel = 3, .pad = 1});
  const auto b = net.Conv2d("conv2b", x, {.out_channels = 16, .kernel = 1});
  x = net.FullyConnected("fc", net.Flatten("flatten", net.Add("add", {a, b})), {.out_features = 10});
  net.SoftmaxCrossEntropy("loss", x);
  return Built(std::move(net));
}

// What leaves a device for the sake of values and their gradients.
double BytesSentIn(const program::Program& program) {
  int64_t bytes = 0;
  for (const program::Task& task : program.tasks) {
    const bool of_values = !task.provenance.layer.starts_with("bucket") && !SumsNumbersOfTheStep(program, task);
    if (task.device == 0 && of_values) bytes += task.work.bytes_sent;
  }
  return static_cast<double>(bytes);
}

// Under columns both readers need all 16 channels, of which each device holds half, and make sums of all of them: of 8
// samples one half is gathered, one whole is summed and scattered, and before the classifier another half is gathered.
TEST(AdditiveCost, ReadersOfLikePlacementsShareOneTransferEachWay) {
  const layers::LayerGraph graph = Residual();
  const std::vector<layers::Strategy> column = {kReplicate, kColumn}, group = {kReplicate, kGroup};
  const Plan columns = PlanOf(graph, 1, 2, {kReplicate, kReplicate},
                              {{"conv", column}, {"relu", group}, {"conv2a", column}, {"conv2b", column}, {"add", group}});
  const Plan data = PlanOf(graph, 2, 1, {kBatch, kReplicate});
  const double half = 8.0 * 16 * 8 * 8 / 2 * sizeof(float);
  EXPECT_EQ(Transfers(graph, columns, 8, SentBytes()), 3 * half);
  EXPECT_EQ(Transfers(graph, data, 8, SentBytes()), 0);
  for (const Plan& plan : {columns, data}) {
    const absl::StatusOr<program::Program> program = Lower(graph, plan, {.global_batch = 8});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(Transfers(graph, plan, 8, SentBytes()), BytesSentIn(*program));
  }
}

// Two replicas reduce 24 + 6 and 24 + 4 numbers, and move nothing else.
TEST(AdditiveCost, CountsOfReductionsWhatIsExposed) {
  const layers::LayerGraph graph = TwoLayers();
  const Plan plan = PlanOf(graph, 2, 1, {kBatch, kReplicate});
  const CostFunctions cost = SentBytes();
  const std::vector<std::vector<StrategyOption>> options = OnlyOptions(graph, plan, 8, cost);
  const double bytes = (24 + 6 + 24 + 4) * sizeof(float);
  for (const double exposed : {1.0, 0.25, 0.0}) {
    EXPECT_EQ(AdditiveCost(graph, plan.mesh, 8, options, cost, exposed).TotalCost(Assignment(graph.nodes.size(), 0)),
              exposed * bytes);
  }
}

}  // namespace
}  // namespace colonnade::partition
