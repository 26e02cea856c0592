// What the stages of convolutions and fully connected layers compute on one shard.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"
#include "tests/layers/one_shard.h"

namespace colonnade::layers {
namespace {

using ::testing::ElementsAre;

TEST(EmitConv2d, OperandsStandInTheOrderOfTheOp) {
  const OneShard with(Conv2d{.out_channels = 8, .kernel = 3}, kImage);
  EXPECT_THAT(with.ForwardWords(), ElementsAre("conv_forward read x, read w, read b, write y"));
  EXPECT_THAT(with.BackwardWords(), ElementsAre("conv_backward_weights read x, read dy, write dw, write db",
                                                "conv_backward_data read dy, read w, write dx"));
  const OneShard without(Conv2d{.out_channels = 8, .kernel = 3, .bias = false}, kImage);
  EXPECT_THAT(without.ForwardWords(), ElementsAre("conv_forward read x, read w, write y"));
  EXPECT_THAT(without.BackwardWords(), ElementsAre("conv_backward_weights read x, read dy, write dw",
                                                   "conv_backward_data read dy, read w, write dx"));
  EXPECT_TRUE(std::get<program::ConvForward>(with.Forward()[0].op).bias);
  EXPECT_FALSE(std::get<program::ConvForward>(without.Forward()[0].op).bias);
  EXPECT_TRUE(std::get<program::ConvBackwardWeights>(with.Backward()[0].op).bias);
  EXPECT_FALSE(std::get<program::ConvBackwardWeights>(without.Backward()[0].op).bias);
}

TEST(EmitConv2d, GroupsAreThoseOfTheShard) {
  const Conv2d conv{.out_channels = 8, .kernel = 3, .stride = 2, .pad = 1, .groups = 4};
  const LayerShapes whole = ShapesOf(conv, kImage);
  LayerShapes local = whole;
  EXPECT_EQ(std::get<program::ConvForward>(OneShard(conv, kImage).Forward()[0].op).groups, 4);
  local.inputs[0][1] = 2;  // half of the groups
  local.parameters[0][0] = local.parameters[1][0] = local.output[1] = 4;
  const OneShard half(conv, local, whole);
  const program::Window window{3, 3, 2, 2, 1, 1, 1, 1};
  EXPECT_EQ(half.Forward()[0].op, program::Op(program::ConvForward{.window = window, .groups = 2, .bias = true}));
  EXPECT_EQ(half.Backward()[0].op, program::Op(program::ConvBackwardWeights{.window = window, .groups = 2, .bias = true}));
  EXPECT_EQ(half.Backward()[1].op, program::Op(program::ConvBackwardData{.window = window, .groups = 2}));
}

TEST(EmitConv2d, DoesTwoFlopsPerMultiplyAdd) {
  const OneShard shard(Conv2d{.out_channels = 8, .kernel = 3, .groups = 2, .bias = false}, kImage);
  const int64_t y = 2 * 8 * 9, flops = 2 * y * 2 * 9;
  EXPECT_EQ(shard.Forward()[0].flops, flops);
  EXPECT_EQ(shard.Backward()[0].flops, flops);
  EXPECT_EQ(shard.Backward()[1].flops, flops);
}

TEST(EmitFullyConnected, OperandsStandInTheOrderOfTheOp) {
  const OneShard with(FullyConnected{.out_features = 7}, kFlat);
  EXPECT_THAT(with.ForwardWords(), ElementsAre("fully_connected_forward read x, read w, read b, write y"));
  EXPECT_THAT(with.BackwardWords(), ElementsAre("fully_connected_backward_weights read x, read dy, write dw, write db",
                                                "fully_connected_backward_data read dy, read w, write dx"));
  const OneShard without(FullyConnected{.out_features = 7, .bias = false}, kFlat);
  EXPECT_THAT(without.ForwardWords(), ElementsAre("fully_connected_forward read x, read w, write y"));
  EXPECT_FALSE(std::get<program::FullyConnectedBackwardWeights>(without.Backward()[0].op).bias);
  const int64_t flops = 2 * 2 * 12 * 7;
  EXPECT_EQ(without.Forward()[0].flops, flops);
  EXPECT_EQ(without.Backward()[1].flops, flops);
}

// The sum over devices stands between the product and the bias.
TEST(EmitProduct, UnderRowTheBiasIsAddedInAStageOfItsOwn) {
  for (const auto& [layer, inputs, op] : std::vector<std::tuple<Layer, std::vector<Shape>, std::string>>{
           {Conv2d{.out_channels = 8, .kernel = 3}, kImage, "conv"},
           {FullyConnected{.out_features = 7}, kFlat, "fully_connected"}}) {
    const OneShard shard(layer, inputs, {.makes_partial_sum = true});
    ASSERT_EQ(shard.stages().stages.size(), 5u);
    EXPECT_THAT(shard.StageWords(0), ElementsAre(op + "_forward read x, read w, write z"));
    EXPECT_THAT(shard.StageWords(1), ElementsAre("bias_forward read z, read b, write y"));
    EXPECT_THAT(shard.StageWords(2), ElementsAre("bias_backward read dy, write db"));
    EXPECT_THAT(shard.StageWords(3), ElementsAre(op + "_backward_weights read x, read dy, write dw"));
    EXPECT_THAT(shard.StageWords(4), ElementsAre(op + "_backward_data read dy, read w, write dx"));
  }
}

TEST(EmitProduct, UnderRowTheOpsOfTheProductHaveNoBias) {
  const OneShard conv(Conv2d{.out_channels = 8, .kernel = 3}, kImage, {.makes_partial_sum = true}),
      fc(FullyConnected{.out_features = 7}, kFlat, {.makes_partial_sum = true});
  EXPECT_FALSE(std::get<program::ConvForward>(conv.Stage(0)[0].op).bias);
  EXPECT_FALSE(std::get<program::ConvBackwardWeights>(conv.Stage(3)[0].op).bias);
  EXPECT_FALSE(std::get<program::FullyConnectedForward>(fc.Stage(0)[0].op).bias);
  EXPECT_FALSE(std::get<program::FullyConnectedBackwardWeights>(fc.Stage(3)[0].op).bias);
}

TEST(EmitProduct, ABiasAddedApartIsAnAddOfEachElement) {
  const OneShard shard(FullyConnected{.out_features = 7}, kFlat, {.makes_partial_sum = true});
  EXPECT_EQ(shard.Stage(1)[0].flops, 14);
  EXPECT_EQ(shard.Stage(2)[0].flops, 14);
}

TEST(EmitProduct, ABiasThatLoweringGivesItIsPartOfTheOp) {
  OneShard shard(Conv2d{.out_channels = 8, .kernel = 3, .pad = 1, .bias = false}, {{6, 4, 5, 5}});
  EXPECT_THAT(shard.StageWords(0), ElementsAre("conv_forward read x, read w, write y"));
  EXPECT_THAT(shard.FusedWords(0, Y(), {{Fused::kBias, "bias"}}),
              ElementsAre("conv_forward read x, read w, read bias, write y"));
}

TEST(EmitProduct, AnEpilogueIsPartOfTheOp) {
  const OneShard conv(Conv2d{.out_channels = 8, .kernel = 3}, kImage), fc(FullyConnected{.out_features = 7}, kFlat);
  EXPECT_FALSE(std::get<program::ConvForward>(conv.Stage(0)[0].op).relu);
  EXPECT_TRUE(std::get<program::ConvForward>(conv.Stage(0, program::Activation::kRelu)[0].op).relu);
  EXPECT_FALSE(std::get<program::FullyConnectedForward>(fc.Stage(0)[0].op).relu);
  EXPECT_TRUE(std::get<program::FullyConnectedForward>(fc.Stage(0, program::Activation::kRelu)[0].op).relu);
}

}  // namespace
}  // namespace colonnade::layers
