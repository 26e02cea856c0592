#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Parameters(const Lowering& lowering) {
  std::vector<std::string> lines;
  for (const ShardedParameter& p : lowering.parameters) {
    lines.push_back(absl::StrCat(p.spec.name, " ", Letters(p.placement), " gradient ", Letters(p.gradient)));
  }
  return lines;
}

ShardedParameter ParameterOf(const LoweringCase& c, const std::string& layer, int index) {
  const int node = c.Node(layer);
  return {.spec = c.graph.nodes[node].parameters[index], .node = node, .index = index};
}

// Column on the second axis, batch on the first.
TEST(ExpandShards, OperandsLieAsTheLayerNeedsThemAndResultsAsItMakesThem) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"fc1", {kBatch, kColumn}}, {"relu", {kBatch, kGroup}}}));
  const ValueId x = c.Add("x", {8, 4}), y = c.Add("y", {8, 6}), r = c.Add("r", {8, 6}), dr = c.Add("dr", {8, 6}),
                dy = c.Add("dy", {8, 6}), dx = c.Add("dx", {8, 4});
  c.lowering.values[x.value].role = c.lowering.values[dr.value].role = HostInputPart{};
  c.ForwardOf("fc1", {{X(), x}, {Y(), y}});
  c.ForwardOf("relu", {{X(), y}, {Y(), r}});
  c.BackwardOf("relu", {{Y(), r}, {D(Y()), dr}, {D(X()), dy}});
  c.BackwardOf("fc1", {{X(), x}, {D(Y()), dy}});
  c.BackwardOf("fc1", {{D(Y()), dy}, {D(X()), dx}});
  c.lowering.parameters = {ParameterOf(c, "fc1", 0), ParameterOf(c, "fc1", 1), ParameterOf(c, "fc2", 0)};
  ASSERT_TRUE(ExpandShards(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x(S0,R) -> y(S0,S1)", "forward relu: y(S0,S1) -> r(S0,S1)",
                                               "backward relu: r(S0,S1) dr(S0,S1) -> dy(S0,S1)",
                                               "backward fc1: x(S0,R) dy(S0,S1)", "backward fc1: dy(S0,S1) -> dx(S0,P)"));
  EXPECT_THAT(Parameters(c.lowering),
              ElementsAre("fc1.weight R,S0 gradient P,S0", "fc1.bias R,S0 gradient P,S0", "fc2.weight R,R gradient P,R"));
}

// Row: z is a sum over columns, the bias is added to the whole, its gradient is a sum over the batch alone.
TEST(ExpandShards, ARowLayersSumIsMadePartialAndNeededWholeWhereItsBiasIsAdded) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"fc2", {kBatch, kRow}}}));
  const layers::Slot sum = layers::Inner();
  const ValueId x = c.Add("x", {8, 6}), z = c.Add("z", {8, 4}), y = c.Add("y", {8, 4}), dy = c.Add("dy", {8, 4}),
                dx = c.Add("dx", {8, 6});
  c.lowering.values[x.value].role = c.lowering.values[dy.value].role = HostInputPart{};
  c.ForwardOf("fc2", {{X(), x}, {sum, z}});
  c.ForwardOf("fc2", {{sum, z}, {Y(), y}});
  c.BackwardOf("fc2", {{D(Y()), dy}});
  c.BackwardOf("fc2", {{X(), x}, {D(Y()), dy}});
  c.BackwardOf("fc2", {{D(Y()), dy}, {D(X()), dx}});
  c.lowering.parameters = {ParameterOf(c, "fc2", 0), ParameterOf(c, "fc2", 1)};
  ASSERT_TRUE(ExpandShards(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc2: x(S0,S1) -> z(S0,P)", "forward fc2: z(S0,R) -> y(S0,R)", "backward fc2: dy(S0,R)",
                          "backward fc2: x(S0,S1) dy(S0,R)", "backward fc2: dy(S0,R) -> dx(S0,S1)"));
  EXPECT_THAT(Parameters(c.lowering), ElementsAre("fc2.weight R,S1 gradient P,S1", "fc2.bias R,R gradient P,R"));
}

// The actions of ExpandStages: parameters are read where they lie, their gradients are made as the layer makes them.
TEST(ExpandShards, ParametersAndTheirGradientsArePlacedAsValues) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"fc1", {kBatch, kColumn}}, {"fc2", {kBatch, kRow}}}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  ASSERT_TRUE(ExpandShards(c.lowering).ok());
  std::vector<std::string> placed;
  for (const Value& value : c.lowering.values) {
    if (IsOfParameter(value)) placed.push_back(absl::StrCat(value.name, " ", Letters(value.placement)));
  }
  EXPECT_THAT(placed, ::testing::UnorderedElementsAre("fc1.weight R,S0", "fc1.bias R,S0", "fc2.weight R,S1", "fc2.bias R,R",
                                                      "fc1.weight.gradient P,S0", "fc1.bias.gradient P,S0",
                                                      "fc2.weight.gradient P,S1", "fc2.bias.gradient P,R"));
  int reads = 0;
  for (const Action& action : c.lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      const Value& value = c.lowering.value(operand.value);
      if (!IsOfParameter(value)) continue;
      EXPECT_EQ(operand.needed, value.placement) << value.name;
      ++reads;
    }
  }
  EXPECT_EQ(reads, 5) << "weights and biases forward; backward that of fc2, since the images have no gradient";
}

TEST(ExpandShards, WhatForwardLeavesForBackwardLiesAsTheOutputDoes) {
  const layers::LayerGraph graph = PooledRelu();
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"pool", {kBatch, kGroup}}}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  ASSERT_TRUE(ExpandShards(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  EXPECT_EQ(actions[0], "count labels loss: labels(S0,R) -> label_count(P,R)");
  EXPECT_EQ(actions[3], "forward pool: relu.y(S0,S1) -> pool.y(S0,S1) pool.argmax(S0,S1)");
  EXPECT_EQ(actions[6], "forward loss: fc.y(S0,R) labels(S0,R) -> metrics(P,R) loss.probabilities(S0,R)");
  EXPECT_EQ(actions.back(), "report loss: metrics(R,R)");
}

TEST(ExpandShards, LabelsLieAsTheBatchOfTheLogitsAndSumsAsTheGradient) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"relu", {kBatch, kGroup}}}));
  const ValueId logits = c.Add("logits", {8, 4}), labels = c.Add("labels", {8}), a = c.Add("a", {8, 6}),
                sum = c.Add("sum", {8, 6}), d_logits = c.Add("d_logits", {8, 4});
  for (ValueId given : {logits, labels, a}) c.lowering.values[given.value].role = HostInputPart{};
  c.BackwardOf("loss", {{X(1), labels}, {D(X()), d_logits}});
  c.ForwardOf("loss", {{X(), logits}, {X(1), labels}});
  c.Act(SumGradients{c.Node("relu")}, "relu", program::Pass::kBackward, {{a, {}}, {a, {}}}, {sum});
  ASSERT_TRUE(ExpandShards(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("backward loss: labels(S0,R) -> d_logits(S0,R)", "forward loss: logits(S0,R) labels(S0,R)",
                          "sum relu: a(S0,S1) a(S0,S1) -> sum(S0,S1)"));
}

// relu's output is read by four layers; each test says how they are split.
struct FourReaders : LoweringCase {
  explicit FourReaders(const std::map<std::string, std::vector<layers::Strategy>>& named)
      : LoweringCase(Graph(), PlanOf(Graph(), 1, 2, {kReplicate, kReplicate}, named)) {
    std::vector<ActionOperand> contributions;
    for (const char* layer : {"a", "b", "c", "d"}) {
      const ValueId dy = Add(absl::StrCat("dy_", layer), {8, 6}), dx = Add(absl::StrCat("dx_", layer), {8, 6});
      lowering.values[dy.value].role = HostInputPart{};
      BackwardOf(layer, {{D(Y()), dy}, {D(X()), dx}});
      contributions.push_back({dx, {}});
    }
    Act(SumGradients{Node("relu")}, "relu", program::Pass::kBackward, contributions, {Add("relu.dy", {8, 6})});
  }
  std::vector<std::string> Sums() {
    EXPECT_TRUE(ExpandShards(lowering).ok());
    std::vector<std::string> sums;
    for (const std::string& line : Actions(lowering)) {
      if (line.rfind("sum", 0) == 0) sums.push_back(line);
    }
    return sums;
  }
  static layers::LayerGraph Graph() {
    layers::GraphBuilder net("four_readers");
    const auto x = net.Relu("relu", net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 6}));
    std::vector<layers::LayerId> read;
    for (const char* name : {"a", "b", "c", "d"}) read.push_back(net.FullyConnected(name, x, {.out_features = 6}));
    net.SoftmaxCrossEntropy("loss",
                            net.Add("add", {net.Add("add_ab", {read[0], read[1]}), net.Add("add_cd", {read[2], read[3]})}));
    return Built(std::move(net));
  }
};

TEST(ExpandShards, ContributionsThatLieAlikeAreAddedWhereTheyAre) {
  const std::vector<layers::Strategy> column = {kReplicate, kColumn};
  FourReaders c({{"a", column}, {"b", column}, {"c", column}, {"d", column}});
  EXPECT_THAT(c.Sums(), ElementsAre("sum relu: dx_a(R,P) dx_b(R,P) dx_c(R,P) dx_d(R,P) -> relu.dy(R,P)"));
}

TEST(ExpandShards, ContributionsThatLieDifferentlyAreAddedInGroupsFirst) {
  const std::vector<layers::Strategy> column = {kReplicate, kColumn}, row = {kReplicate, kRow};
  FourReaders c({{"a", column}, {"b", row}, {"c", column}});
  EXPECT_THAT(c.Sums(), ElementsAre("sum relu: dx_a(R,P) dx_c(R,P) -> relu.dy0(R,P)",
                                    "sum relu: relu.dy0(R,R) dx_b(R,R) dx_d(R,R) -> relu.dy(R,R)"));
}

// A slice costs nothing, and what is sliced first is less to add.
TEST(ExpandShards, ContributionsThatAreOnlySlicedAreSlicedFirst) {
  FourReaders c({{"relu", {kReplicate, kGroup}}});
  EXPECT_THAT(c.Sums(), ElementsAre("sum relu: dx_a(R,S1) dx_b(R,S1) dx_c(R,S1) dx_d(R,S1) -> relu.dy(R,S1)"));
}

TEST(ExpandShards, AValueThatNobodyMakesIsAnInternalError) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 2, {kReplicate, kReplicate}));
  c.Add("stray", {8, 4});
  const absl::Status status = ExpandShards(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stray"));
}

}  // namespace
}  // namespace colonnade::partition
