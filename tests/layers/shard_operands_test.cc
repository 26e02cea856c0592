#include "layers/shard_operands.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/traits.h"
#include "tests/layers/layer_case.h"

namespace colonnade::layers {
namespace {

using program::Shape;
using ::testing::ElementsAre;

std::vector<Shape> ShapesOf(const std::vector<Operand>& operands) {
  std::vector<Shape> shapes;
  for (const Operand& x : operands) shapes.push_back(x.shape);
  return shapes;
}

TEST(ShardOperands, AConvolutionHasXWeightBiasAndY) {
  const Layer conv = Conv2d{.out_channels = 8, .kernel = 3};
  const BackwardShard shard = BackwardOperands(conv, layers::ShapesOf(conv, {{2, 4, 5, 5}}));
  EXPECT_THAT(ShapesOf(shard.inputs), ElementsAre(Shape{2, 4, 5, 5}));
  EXPECT_THAT(ShapesOf(shard.parameters), ElementsAre(Shape{8, 4, 3, 3}, Shape{8}));
  EXPECT_THAT(ShapesOf(shard.d_parameters), ElementsAre(Shape{8, 4, 3, 3}, Shape{8}));
  EXPECT_EQ(shard.output.shape, (Shape{2, 8, 3, 3}));
  EXPECT_EQ(shard.d_output->shape, (Shape{2, 8, 3, 3}));
  EXPECT_EQ(shard.d_inputs[0]->shape, (Shape{2, 4, 5, 5}));
  EXPECT_EQ(shard.output_region, program::Region::Whole({2, 8, 3, 3}));
}

TEST(ShardOperands, ALossReadsLabelsMakesMetricsAndHasNoDy) {
  const Layer loss = SoftmaxCrossEntropy{};
  const LayerShapes local = layers::ShapesOf(loss, {{6, 10}});
  const ForwardShard forward = ForwardOperands(loss, local);
  const BackwardShard backward = BackwardOperands(loss, local);
  EXPECT_THAT(ShapesOf(forward.inputs), ElementsAre(Shape{6, 10}, Shape{6}));
  EXPECT_EQ(forward.output.shape, Shape{program::kMetricCount});
  EXPECT_EQ(backward.output.shape, forward.output.shape);
  EXPECT_THAT(ShapesOf(backward.saved), ElementsAre(Shape{6, 10}));
  EXPECT_FALSE(backward.d_output.has_value());
  ASSERT_EQ(backward.d_inputs.size(), 1u) << "labels have no gradient";
}

TEST(ShardOperands, ShapesAreLocalAndTheGlobalOneIsKept) {
  const Layer lrn = Lrn{.groups = 2};
  LayerShapes local = layers::ShapesOf(lrn, {{2, 8, 3, 3}});
  local.inputs[0] = local.output = {2, 4, 3, 3};
  const ForwardShard shard = ForwardOperands(lrn, local);
  EXPECT_THAT(ShapesOf(shard.saved), ElementsAre(Shape{2, 4, 3, 3}));
  EXPECT_EQ(shard.output.shape, (Shape{2, 4, 3, 3}));
  EXPECT_EQ(shard.global_output_shape, (Shape{2, 8, 3, 3}));
}

TEST(Traits, SayWhatLoweringAsksOfEachLayer) {
  EXPECT_TRUE(TraitsOf(Input{}).is_input);
  EXPECT_TRUE(TraitsOf(SoftmaxCrossEntropy{}).is_loss);
  EXPECT_TRUE(TraitsOf(Relu{}).is_relu);
  EXPECT_TRUE(TraitsOf(MaxPool{}).is_max_pool);
  EXPECT_FALSE(TraitsOf(AvgPool{}).is_max_pool);
  EXPECT_TRUE(TraitsOf(Concat{}).needs_all_channels);
  EXPECT_FALSE(TraitsOf(Add{}).needs_all_channels);
  const LayerTraits conv = TraitsOf(Conv2d{.groups = 2, .bias = false}), fc = TraitsOf(FullyConnected{});
  EXPECT_TRUE(conv.is_convolution && conv.multiplies_weights && !conv.has_bias);
  EXPECT_EQ(conv.groups, 2);
  EXPECT_TRUE(!fc.is_convolution && fc.multiplies_weights && fc.has_bias);
  EXPECT_FALSE(TraitsOf(WithoutBias(FullyConnected{})).has_bias);
}

struct NoLayer {
  bool operator==(const NoLayer&) const = default;
};
static_assert(LayerType<Conv2d> && !LayerType<NoLayer>);

}  // namespace
}  // namespace colonnade::layers
