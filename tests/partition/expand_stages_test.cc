#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The parameters that an action reads, then those whose gradients it makes.
std::vector<std::string> ParametersOf(const Lowering& lowering, const Action& action) {
  std::vector<std::string> names;
  const auto add = [&](ValueId id) {
    if (id.valid() && IsOfParameter(lowering.value(id))) names.push_back(lowering.value(id).name);
  };
  for (const ActionOperand& operand : action.inputs) add(operand.value);
  for (ValueId output : action.outputs) add(output);
  return names;
}

TEST(ExpandStages, BackwardVisitsLayersInReverseAndReadsOnlyWhatItsOpsRead) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("count labels loss: labels -> label_count",                         //
                                               "forward fc1: images -> fc1.y",                                     //
                                               "forward relu: fc1.y -> relu.y",                                    //
                                               "forward fc2: relu.y -> fc2.y",                                     //
                                               "forward loss: fc2.y labels -> metrics loss.probabilities",         //
                                               "backward loss: labels label_count loss.probabilities -> loss.dx",  //
                                               "backward fc2: relu.y loss.dx",                                     //
                                               "backward fc2: loss.dx -> fc2.dx",                                  //
                                               "backward relu: relu.y fc2.dx -> relu.dx",                          //
                                               "backward fc1: images relu.dx",                                     //
                                               "report loss: metrics"));
}

TEST(ExpandStages, EvaluationHasNoBackward) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}), {.mode = program::Mode::kEval, .global_batch = 8});
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc1: images -> fc1.y", "forward relu: fc1.y -> relu.y", "forward fc2: relu.y -> fc2.y",
                          "forward loss: fc2.y labels -> metrics loss.probabilities", "report loss: metrics"));
}

TEST(ExpandStages, TheBiasOfARowLayerIsAnActionOfItsOwn) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 2, {kReplicate, kReplicate}, {{"fc2", {kReplicate, kRow}}}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  ASSERT_EQ(actions.size(), 13u);
  EXPECT_EQ(actions[3], "forward fc2: relu.y -> fc2.z");
  EXPECT_EQ(actions[4], "forward fc2: fc2.z -> fc2.y");
  EXPECT_EQ(actions[7], "backward fc2: loss.dx");
  EXPECT_EQ(actions[8], "backward fc2: relu.y loss.dx");
  EXPECT_EQ(actions[9], "backward fc2: loss.dx -> fc2.dx");
  EXPECT_THAT(ParametersOf(c.lowering, c.lowering.actions[3]), ElementsAre("fc2.weight"));
  EXPECT_THAT(ParametersOf(c.lowering, c.lowering.actions[4]), ElementsAre("fc2.bias"));
  EXPECT_THAT(ParametersOf(c.lowering, c.lowering.actions[7]), ElementsAre("fc2.bias.gradient"));
  EXPECT_THAT(ParametersOf(c.lowering, c.lowering.actions[8]), ElementsAre("fc2.weight.gradient"));
  EXPECT_THAT(ParametersOf(c.lowering, c.lowering.actions[9]), ElementsAre("fc2.weight"));
}

// Each parameter is one value, which all stages read, and has one gradient.
TEST(ExpandStages, ParametersAndTheirGradientsAreValues) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  std::vector<std::string> parameters, values;
  for (const ShardedParameter& p : c.lowering.parameters) {
    parameters.push_back(absl::StrCat(p.spec.name, " ", p.node, " ", p.index));
  }
  for (const Value& value : c.lowering.values) {
    if (!IsOfParameter(value)) continue;
    const auto* gradient = value.As<ParameterGradient>();
    const int parameter = gradient != nullptr ? gradient->parameter : std::get<TrainedParameter>(value.role).index;
    values.push_back(absl::StrCat(value.name, " ", parameter, gradient != nullptr ? " gradient" : ""));
    EXPECT_TRUE(value.in_master_type) << value.name;
    EXPECT_EQ(value.shape, c.lowering.parameters[parameter].spec.shape) << value.name;
  }
  EXPECT_THAT(parameters, ElementsAre("fc1.weight 1 0", "fc1.bias 1 1", "fc2.weight 3 0", "fc2.bias 3 1"));
  EXPECT_THAT(values, ::testing::UnorderedElementsAre("fc1.weight 0", "fc1.bias 1", "fc2.weight 2", "fc2.bias 3",
                                                      "fc1.weight.gradient 0 gradient", "fc1.bias.gradient 1 gradient",
                                                      "fc2.weight.gradient 2 gradient", "fc2.bias.gradient 3 gradient"));
}

TEST(ExpandStages, EvaluationMakesNoInnerValueThatBackwardAloneWouldRead) {
  const layers::LayerGraph graph = PooledRelu();
  for (const bool train : {true, false}) {
    LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}),
                   {.mode = train ? program::Mode::kTrain : program::Mode::kEval, .global_batch = 8});
    ASSERT_TRUE(ExpandStages(c.lowering).ok());
    EXPECT_EQ(Actions(c.lowering)[train ? 3 : 2],
              train ? "forward pool: relu.y -> pool.y pool.argmax" : "forward pool: relu.y -> pool.y");
    const auto is_argmax = [](const Value& value) { return value.name == "pool.argmax"; };
    EXPECT_EQ(std::any_of(c.lowering.values.begin(), c.lowering.values.end(), is_argmax), train);
  }
}

// The pooling stands before the first parameter: it has no gradient, and what its gradient would read is not made.
TEST(ExpandStages, NoInnerValueIsMadeForAGradientThatNobodyWants) {
  layers::GraphBuilder net("late");
  auto x = net.Flatten("flatten", net.MaxPool("pool", net.Input("images", {1, 4, 4}), {.kernel = 2, .stride = 2}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("count labels loss: labels -> label_count", "forward pool: images -> pool.y",
                                               "forward flatten: pool.y -> flatten.y", "forward fc: flatten.y -> fc.y",
                                               "forward loss: fc.y labels -> metrics loss.probabilities",
                                               "backward loss: labels label_count loss.probabilities -> loss.dx",
                                               "backward fc: flatten.y loss.dx", "report loss: metrics"));
}

// z is read forward, in evaluation too.
TEST(ExpandStages, AnInnerValueThatForwardReadsIsMadeInEvaluation) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 2, {kReplicate, kReplicate}, {{"fc2", {kReplicate, kRow}}}),
                 {.mode = program::Mode::kEval, .global_batch = 8});
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  ASSERT_EQ(actions.size(), 6u);
  EXPECT_EQ(actions[2], "forward fc2: relu.y -> fc2.z");
  EXPECT_EQ(actions[3], "forward fc2: fc2.z -> fc2.y");
}

TEST(ExpandStages, ValuesHaveTheTypesOfTheirOwn) {
  layers::GraphBuilder net("types");
  auto x = net.Conv2d("conv", net.Input("images", {2, 4, 4}), {.out_channels = 2, .kernel = 1});
  x = net.Flatten("flatten", net.MaxPool("pool", net.Lrn("lrn", x, {}), {.kernel = 2, .stride = 2}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  std::vector<std::string> own;
  for (const Value& value : c.lowering.values) {
    if (IsOfParameter(value)) continue;
    if (value.dtype) own.push_back(absl::StrCat(value.name, " ", program::Name(*value.dtype)));
    if (value.in_master_type) own.push_back(absl::StrCat(value.name, " master"));
  }
  EXPECT_THAT(own, ::testing::UnorderedElementsAre("labels i32", "label_count f64", "pool.argmax u8", "metrics f64",
                                                   "loss.probabilities master"));
}

TEST(ExpandStages, GradientsOfParametersAreInTheMasterTypeInEachMicroBatchToo) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}), {.global_batch = 8, .micro_batches = 3});
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  std::vector<std::string> of_weight;
  for (const Value& value : c.lowering.values) {
    if (!value.name.starts_with("fc1.weight.gradient")) continue;
    of_weight.push_back(absl::StrCat(value.name, value.in_master_type ? " master" : ""));
  }
  EXPECT_THAT(of_weight, ::testing::UnorderedElementsAre("fc1.weight.gradient master", "fc1.weight.gradient.1 master",
                                                         "fc1.weight.gradient.1.sum master", "fc1.weight.gradient.2 master",
                                                         "fc1.weight.gradient master"));
}

layers::LayerGraph TwoLosses() {
  layers::GraphBuilder net("heads");
  auto x = net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("head.loss", net.FullyConnected("head", x, {.out_features = 3}), {.weight = 0.3});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("last", x, {.out_features = 3}));
  return Built(std::move(net));
}

TEST(ExpandStages, EachLossHasMetricsAndSendsAGradientBack) {
  const layers::LayerGraph graph = TwoLosses();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  EXPECT_THAT(
      Actions(c.lowering),
      ElementsAre("count labels loss: labels -> label_count", "forward fc: images -> fc.y", "forward head: fc.y -> head.y",
                  "forward head.loss: head.y labels -> head.loss.metrics head.loss.probabilities",
                  "forward last: fc.y -> last.y", "forward loss: last.y labels -> metrics loss.probabilities",
                  "backward loss: labels label_count loss.probabilities -> loss.dx", "backward last: fc.y loss.dx",
                  "backward last: loss.dx -> last.dx",
                  "backward head.loss: labels label_count head.loss.probabilities -> head.loss.dx",
                  "backward head: fc.y head.loss.dx", "backward head: head.loss.dx -> head.dx",
                  "sum fc: last.dx head.dx -> fc.dy", "backward fc: images fc.dy", "report head.loss: head.loss.metrics",
                  "report loss: metrics"));
}

TEST(ExpandStages, EvaluationRunsWhatReachesTheLastLoss) {
  const layers::LayerGraph graph = TwoLosses();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}), {.mode = program::Mode::kEval, .global_batch = 8});
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc: images -> fc.y", "forward last: fc.y -> last.y",
                          "forward loss: last.y labels -> metrics loss.probabilities", "report loss: metrics"));
  EXPECT_EQ(c.lowering.parameters.size(), 6u) << "a head's parameters are kept, as files have them";
}

TEST(ExpandStages, GradientsOfAValueThatSeveralLayersReadAreSummed) {
  layers::GraphBuilder net("join");
  auto x = net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", net.Add("add", {net.Relu("relu", x), x}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  EXPECT_THAT(std::vector<std::string>(actions.begin() + 5, actions.end()),
              ElementsAre("backward loss: labels label_count loss.probabilities -> loss.dx",
                          "backward add: loss.dx -> add.dx0 add.dx1", "backward relu: relu.y add.dx0 -> relu.dx",
                          "sum fc: add.dx1 relu.dx -> fc.dy", "backward fc: images fc.dy", "report loss: metrics"));
}

// A gradient is divided by the labels of the whole batch, which are there before the first micro-batch is; metrics are
// added.
TEST(ExpandStages, MicroBatchesAreCountedTogetherAndReportTheSumOfTheirMetrics) {
  layers::GraphBuilder net("two");
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}), {.global_batch = 8, .micro_batches = 2});
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  EXPECT_EQ(actions.front(), "count labels loss: labels labels.1 -> label_count");
  EXPECT_THAT(actions, ::testing::Contains("sum micro-batches loss: metrics metrics.1 -> metrics.1.sum"));
  EXPECT_EQ(actions.back(), "report loss: metrics.1.sum");
}

// A layer before every parameter has no gradient, and nobody makes one for it.
TEST(ExpandStages, NothingIsDifferentiatedBeforeTheFirstParameter) {
  layers::GraphBuilder net("late");
  auto x = net.Relu("relu", net.Input("images", {4}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  EXPECT_EQ(actions[actions.size() - 2], "backward fc: relu.y loss.dx");
}

}  // namespace
}  // namespace colonnade::partition
