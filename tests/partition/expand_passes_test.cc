#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ExpandPasses, BackwardVisitsLayersInReverseAndReadsOnlyWhatItsOpsRead) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandPasses(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: images -> fc1.y",               //
                                               "forward relu: fc1.y -> relu.y",              //
                                               "forward fc2: relu.y -> fc2.y",               //
                                               "forward loss: fc2.y labels",                 //
                                               "backward loss: - labels - -> loss.dx",       //
                                               "backward fc2: relu.y - loss.dx -> fc2.dx",   //
                                               "backward relu: - relu.y fc2.dx -> relu.dx",  //
                                               "backward fc1: images - relu.dx -> -"));
}

TEST(ExpandPasses, EvaluationHasNoBackward) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}), {.mode = program::Mode::kEval, .global_batch = 8});
  ASSERT_TRUE(ExpandPasses(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: images -> fc1.y", "forward relu: fc1.y -> relu.y",
                                               "forward fc2: relu.y -> fc2.y", "forward loss: fc2.y labels"));
}

TEST(ExpandPasses, TheBiasOfARowLayerIsAnActionOfItsOwn) {
  const layers::LayerGraph graph = TwoLayers();
  LoweringCase c(graph, PlanOf(graph, 1, 2, {kReplicate, kReplicate}, {{"fc2", {kReplicate, kRow}}}));
  ASSERT_TRUE(ExpandPasses(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  ASSERT_EQ(actions.size(), 10u);
  EXPECT_EQ(actions[2], "forward fc2: relu.y -> fc2.z");
  EXPECT_EQ(actions[3], "add_bias fc2: fc2.z -> fc2.y");
  EXPECT_EQ(actions[6], "bias_gradient fc2: loss.dx");
  EXPECT_EQ(actions[7], "backward fc2: relu.y - loss.dx -> fc2.dx");
  std::vector<std::string> apart;
  for (const ShardedParameter& p : c.lowering.parameters) {
    if (p.separate_bias) apart.push_back(p.spec.name);
  }
  EXPECT_THAT(apart, ElementsAre("fc2.bias"));
}

TEST(ExpandPasses, GradientsOfAValueThatSeveralLayersReadAreSummed) {
  layers::GraphBuilder net("join");
  auto x = net.FullyConnected("fc", net.Input("images", {4}), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", net.Add("add", {net.Relu("relu", x), x}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandPasses(c.lowering).ok());
  const std::vector<std::string> actions = Actions(c.lowering);
  EXPECT_THAT(std::vector<std::string>(actions.begin() + 4, actions.end()),
              ElementsAre("backward loss: - labels - -> loss.dx", "backward add: - - - loss.dx -> add.dx0 add.dx1",
                          "backward relu: - relu.y add.dx0 -> relu.dx", "sum fc: add.dx1 relu.dx -> fc.dy",
                          "backward fc: images - fc.dy -> -"));
}

// A layer before every parameter has no gradient, and nobody makes one for it.
TEST(ExpandPasses, NothingIsDifferentiatedBeforeTheFirstParameter) {
  layers::GraphBuilder net("late");
  auto x = net.Relu("relu", net.Input("images", {4}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  ASSERT_TRUE(ExpandPasses(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering).back(), "backward fc: relu.y - loss.dx -> -");
}

TEST(ExpandPasses, TwoInputLayersAreRefused) {
  layers::GraphBuilder net("two_inputs");
  auto a = net.Input("a", {4}), b = net.Input("b", {4});
  net.SoftmaxCrossEntropy("loss", net.Add("add", {a, b}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 1, 1, {kReplicate, kReplicate}));
  const absl::Status status = ExpandPasses(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("one input layer, found 2"));
}

}  // namespace
}  // namespace colonnade::partition
