#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lower.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;

// The end of a step of PooledRelu: the gradient dp of the pooled values goes through pool, relu and conv.
struct PooledCase : LoweringCase {
  PooledCase(layers::LayerGraph network, Plan of_plan, program::Shape pooled_shape)
      : LoweringCase(std::move(network), std::move(of_plan)) {
    const ValueId images = Add("images", {8, 3, 8, 8}), y = Add("relu.y", {8, 4, 8, 8});
    const ValueId pooled = Add("pool.y", pooled_shape), dp = Add("dp", pooled_shape);
    da = Add("pool.dx", {8, 4, 8, 8});
    dx = Add("relu.dx", {8, 4, 8, 8});
    ForwardOf("pool", {{X(), y}, {Y(), pooled}});
    BackwardOf("pool", {{D(Y()), dp}, {D(X()), da}});
    BackwardOf("relu", {{Y(), y}, {D(Y()), da}, {D(X()), dx}});
    BackwardOf("conv", {{X(), images}, {D(Y()), dx}});
  }
  ValueId da, dx;
};

constexpr char kPool[] = "backward pool: dp -> pool.dx";
constexpr char kRelu[] = "backward relu: relu.y pool.dx -> relu.dx";

Plan Together(const layers::LayerGraph& graph) { return PlanOf(graph, 2, 1, {kBatch, kReplicate}); }

TEST(AdvanceMasks, ComesBeforeThePoolingThatAloneReadsIt) {
  const layers::LayerGraph graph = PooledRelu();
  PooledCase c(graph, Together(graph), {8, 4, 4, 4});
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward pool: relu.y -> pool.y", "backward relu: pool.y dp -> relu.dx",
                                               "backward pool: relu.dx -> pool.dx", "backward conv: images pool.dx"));
  EXPECT_EQ(c.lowering.value(c.dx).shape, (program::Shape{8, 4, 4, 4}));
}

// conv, relu, two poolings, classifier: backward the gradient goes through relu, pool2, pool1.
TEST(AdvanceMasks, PassesEveryPoolingThatStandsBeforeIt) {
  layers::GraphBuilder net("two_pools");
  auto x = net.Conv2d("conv", net.Input("images", {1, 8, 8}), {.out_channels = 4, .kernel = 3, .pad = 1});
  x = net.MaxPool("pool1", net.Relu("relu", net.Add("add", {x, x})), {.kernel = 2, .stride = 2});
  x = net.MaxPool("pool2", x, {.kernel = 2, .stride = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  const absl::StatusOr<layers::LayerGraph> graph = std::move(net).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<program::Program> program = Lower(*graph, Together(*graph), {.global_batch = 8});
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<std::string> backward;
  for (const program::Task& task : program->tasks) {
    const bool counts = task.device == 0 && task.provenance.pass == program::Pass::kBackward;
    if (counts &&
        (task.provenance.layer == "relu" || task.provenance.layer == "pool1" || task.provenance.layer == "pool2")) {
      backward.push_back(task.provenance.layer);
    }
  }
  EXPECT_THAT(backward, ElementsAre("relu", "pool2", "pool1"));
}

TEST(AdvanceMasks, StaysBehindAPoolingThatMakesNothingSmaller) {
  const layers::LayerGraph graph = PooledRelu(/*pool_stride=*/1);
  PooledCase c(graph, Together(graph), {8, 4, 8, 8});
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[1], kPool);
  EXPECT_EQ(Actions(c.lowering)[2], kRelu);
}

TEST(AdvanceMasks, StaysWhereAnotherReadsThePoolingsGradientToo) {
  const layers::LayerGraph graph = PooledRelu();
  PooledCase c(graph, Together(graph), {8, 4, 4, 4});
  c.Act(SumGradients{c.Node("conv")}, "conv", program::Pass::kBackward, {{c.da, {}}, {c.dx, {}}},
        {c.Add("sum", {8, 4, 8, 8})});
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[1], kPool);
  EXPECT_EQ(Actions(c.lowering)[2], kRelu);
}

TEST(AdvanceMasks, StaysWhereTheTwoLayersLieDifferently) {
  const layers::LayerGraph graph = PooledRelu();
  PooledCase c(graph, PlanOf(graph, 2, 1, {kReplicate, kReplicate}, {{"relu", {kBatch, kReplicate}}}), {8, 4, 4, 4});
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[1], kPool);
  EXPECT_EQ(Actions(c.lowering)[2], kRelu);
}

void ExpectThatNothingMoves(const layers::LayerGraph& graph) {
  LoweringCase c(graph, Together(graph));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  const std::vector<std::string> before = Actions(c.lowering);
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering), before);
}

// GELU's gradient is not dy where its output is above zero.
TEST(AdvanceMasks, AnActivationThatIsNoMaskStays) {
  layers::GraphBuilder net("pooled_gelu");
  auto x = net.Conv2d("conv", net.Input("images", {3, 8, 8}), {.out_channels = 4, .kernel = 3, .pad = 1});
  x = net.MaxPool("pool", net.Gelu("gelu", x), {.kernel = 2, .stride = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  ExpectThatNothingMoves(Built(std::move(net)));
}

// A mean's gradient reaches every element of its window.
TEST(AdvanceMasks, AMaskStaysBehindAPoolingThatIsNoRouting) {
  layers::GraphBuilder net("mean_of_relu");
  auto x = net.Conv2d("conv", net.Input("images", {3, 8, 8}), {.out_channels = 4, .kernel = 3, .pad = 1});
  x = net.AvgPool("mean", net.Relu("relu", x), {.kernel = 2, .stride = 2});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  ExpectThatNothingMoves(Built(std::move(net)));
}

// The pooled values and what the mask reads of them come of the stages that ExpandStages lists.
TEST(AdvanceMasks, AfterwardsTheMasksOutputIsReadByThePoolingAlone) {
  const layers::LayerGraph graph = PooledRelu();
  LoweringCase c(graph, Together(graph));
  ASSERT_TRUE(ExpandStages(c.lowering).ok());
  ASSERT_TRUE(AdvanceMasks(c.lowering).ok());
  std::vector<std::string> of_relu;
  for (const std::string& line : Actions(c.lowering)) {
    if (line.find(" relu.y") != std::string::npos || line.find("backward pool") == 0) of_relu.push_back(line);
  }
  EXPECT_THAT(of_relu, ElementsAre("forward relu: conv.y -> relu.y", "forward pool: relu.y -> pool.y pool.argmax",
                                   "backward pool: pool.argmax relu.dx -> pool.dx"));
}

}  // namespace
}  // namespace colonnade::partition
