// What the stages of batch and layer normalisation compute on one shard.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"
#include "tests/layers/one_shard.h"

namespace colonnade::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const BatchNorm kNorm{.epsilon = 0.25, .momentum = 0.125},
    kNormOfGroups{.epsilon = 0.25, .momentum = 0.125, .samples_per_group = 2};
const std::vector<Shape> kSixImages = {{6, 4, 5, 5}};

TEST(EmitBatchNorm, OperandsStandInTheOrderOfTheOps) {
  const OneShard shard(kNorm, kSixImages);
  EXPECT_THAT(
      shard.ForwardWords(),
      ElementsAre("batch_norm_sums read x, write sums", "batch_norm_forward read x, read sums, read w, read b, write y",
                  "batch_norm_track read sums, accumulate running_mean, accumulate running_var"));
  EXPECT_THAT(shard.BackwardWords(),
              ElementsAre("batch_norm_backward_sums read x, read dy, read sums, write gradient_sums, write dw, write db",
                          "batch_norm_backward read x, read dy, read sums, read gradient_sums, read w, write dx"));
}

TEST(EmitBatchNorm, OfGroupsTheTotalsAreMadeAndTracked) {
  const OneShard shard(kNormOfGroups, kSixImages);
  EXPECT_THAT(shard.StageWords(0), ElementsAre("batch_norm_sums read x, write sums, write totals"));
  EXPECT_THAT(shard.StageWords(1), ElementsAre("batch_norm_forward read x, read sums, read w, read b, write y"));
  EXPECT_THAT(shard.StageWords(2),
              ElementsAre("batch_norm_track read totals, accumulate running_mean, accumulate running_var"));
}

TEST(EmitBatchNorm, EvaluationRecallsTheRunningOnesAndNormalisesByThem) {
  for (const BatchNorm& norm : {kNorm, kNormOfGroups}) {
    const OneShard shard(norm, kSixImages, {.train = false});
    EXPECT_THAT(shard.ForwardWords(), ElementsAre("batch_norm_recall read running_mean, read running_var, write recalled",
                                                  "batch_norm_forward read x, read recalled, read w, read b, write y"));
    EXPECT_THAT(shard.BackwardWords(), IsEmpty());
    // The sums of one element.
    EXPECT_EQ(shard.Forward()[1].op, program::Op(program::BatchNormForward{.count = 1, .epsilon = 0.25}));
  }
}

// For the test the weight has the extents of x, which itself is not read; no sums are made.
TEST(EmitBatchNorm, EvaluationFoldsTheRunningOnesIntoWeightAndBias) {
  OneShard shard(kNorm, kSixImages, {.train = false});
  int64_t flops = 0;
  const std::vector<std::pair<Fused, std::string>> operands = {
      {Fused::kWeight, "weight"}, {Fused::kFoldedWeight, "folded"}, {Fused::kFoldedBias, "folded_bias"}};
  EXPECT_THAT(shard.FusedWords(0, X(), operands, &flops),
              ElementsAre("batch_norm_fold read weight, read running_mean, read running_var, read w, read b, write folded, "
                          "write folded_bias"));
  EXPECT_EQ(flops, 600);
  std::vector<std::pair<Fused, std::string>> with_bias = operands;
  with_bias.emplace_back(Fused::kBias, "bias");
  EXPECT_THAT(shard.FusedWords(0, X(), with_bias),
              ElementsAre("batch_norm_fold read weight, read running_mean, read running_var, read w, read b, read bias, "
                          "write folded, write folded_bias"));
}

// All ops of the training of a part `local` of kSixImages.
void ExpectCounts(const BatchNorm& norm, const LayerShapes& local, int64_t in_group, int64_t in_all) {
  const OneShard shard(norm, local, ShapesOf(norm, kSixImages));
  EXPECT_EQ(shard.Stage(1)[0].op, program::Op(program::BatchNormForward{.count = in_group, .epsilon = 0.25}));
  EXPECT_EQ(shard.Stage(2)[0].op, program::Op(program::BatchNormTrack{.count = in_all, .momentum = 0.125}));
  EXPECT_EQ(shard.Stage(3)[0].op, program::Op(program::BatchNormBackwardSums{.count = in_group, .epsilon = 0.25}));
  EXPECT_EQ(shard.Stage(4)[0].op, program::Op(program::BatchNormBackward{.count = in_group, .epsilon = 0.25}));
}

// 6 samples of 25 places, whatever a device holds of them; in groups, 2 samples.
TEST(EmitBatchNorm, CountsAreOfTheGlobalTensorAlsoForAShard) {
  const LayerShapes sync = ShapesOf(kNorm, kSixImages), ghost = ShapesOf(kNormOfGroups, kSixImages);
  ExpectCounts(kNorm, sync, 150, 150);
  ExpectCounts(kNormOfGroups, ghost, 50, 150);

  LayerShapes third = sync, group = ghost;  // by samples
  for (LayerShapes* local : {&third, &group}) local->inputs[0][0] = local->output[0] = 2;
  ExpectCounts(kNorm, third, 150, 150);
  ExpectCounts(kNormOfGroups, group, 50, 150);

  LayerShapes half = sync, half_of_groups = ghost;  // by channels
  for (LayerShapes* local : {&half, &half_of_groups}) {
    local->inputs[0][1] = local->output[1] = 2;
    for (Shape* channels : {&local->parameters[0], &local->parameters[1], &local->state[0], &local->state[1]}) {
      *channels = {2};
    }
  }
  ExpectCounts(kNorm, half, 150, 150);
  ExpectCounts(kNormOfGroups, half_of_groups, 50, 150);
}

TEST(EmitBatchNorm, CountsOfFeaturesAreTheSamples) {
  const OneShard shard(kNorm, {{6, 10}});
  EXPECT_EQ(shard.Stage(1)[0].op, program::Op(program::BatchNormForward{.count = 6, .epsilon = 0.25}));
  EXPECT_EQ(shard.Stage(2)[0].op, program::Op(program::BatchNormTrack{.count = 6, .momentum = 0.125}));
}

TEST(EmitBatchNorm, AReluIsPartOfTheOpInBothModes) {
  for (const auto& [train, stage, op] : {std::tuple(true, 1, 0), {false, 0, 1}}) {
    const OneShard shard(kNorm, kSixImages, {.train = train});
    EXPECT_FALSE(std::get<program::BatchNormForward>(shard.Stage(stage)[op].op).relu);
    EXPECT_TRUE(std::get<program::BatchNormForward>(shard.Stage(stage, program::Activation::kRelu)[op].op).relu);
  }
}

TEST(EmitBatchNorm, ASummandIsReadBeforeTheResultInBothModes) {
  for (const auto& [train, stage, sums] : {std::tuple(true, 1, "sums"), {false, 0, "recalled"}}) {
    OneShard shard(kNorm, kSixImages, {.train = train});
    int64_t flops = 0;
    EXPECT_EQ(shard.FusedWords(stage, Y(), {{Fused::kAddend, "a"}}, &flops).back(),
              absl::StrCat("batch_norm_forward read x, read ", sums, ", read w, read b, read a, write y"));
    EXPECT_EQ(flops, 4 * 600);
  }
}

TEST(EmitBatchNorm, BackwardOfAReluThatIsRecalledReadsTheParametersToo) {
  const OneShard shard(kNorm, kSixImages);
  const auto sums = shard.Stage(3, program::Activation::kRelu), apply = shard.Stage(4, program::Activation::kRelu);
  EXPECT_THAT(shard.Words(sums), ElementsAre("batch_norm_backward_sums read x, read dy, read sums, read w, read b, "
                                             "write gradient_sums, write dw, write db"));
  EXPECT_THAT(shard.Words(apply), ElementsAre("batch_norm_backward read x, read dy, read sums, read gradient_sums, read w, "
                                              "read b, write dx"));
  EXPECT_EQ(sums[0].flops, 8 * 600);
  EXPECT_EQ(apply[0].flops, 9 * 600);
}

TEST(EmitBatchNorm, AMaskMakesTheSumsAnOpThatWritesTheMaskedGradient) {
  OneShard shard(kNorm, kSixImages);
  int64_t flops = 0;
  const std::pair<Fused, std::string> mask = {Fused::kMaskSource, "kept"}, more = {Fused::kGradientAddend, "more"},
                                      masked = {Fused::kMaskedGradient, "dz"};
  EXPECT_THAT(shard.FusedWords(3, D(Y()), {mask, masked}, &flops),
              ElementsAre("batch_norm_masked_sums read x, read kept, read dy, read sums, write dz, write gradient_sums, "
                          "write dw, write db"));
  EXPECT_EQ(flops, 6 * 600);
  EXPECT_THAT(shard.FusedWords(3, D(Y()), {mask, more, masked}, &flops),
              ElementsAre("batch_norm_masked_sums read x, read kept, read dy, read sums, read more, write dz, "
                          "write gradient_sums, write dw, write db"));
  EXPECT_EQ(flops, 7 * 600);
}

TEST(EmitBatchNorm, FlopsAreOfTheElementsAndNotOfTheChannels) {
  const OneShard shard(kNorm, kSixImages);
  const int64_t x = 6 * 4 * 25;
  EXPECT_EQ(shard.Stage(0)[0].flops, 3 * x);
  EXPECT_EQ(shard.Stage(1)[0].flops, 3 * x);
  EXPECT_EQ(shard.Stage(2)[0].flops, 0);
  EXPECT_EQ(shard.Stage(3)[0].flops, 5 * x);
  EXPECT_EQ(shard.Stage(4)[0].flops, 6 * x);
}

// Nobody needs the gradient of images.
TEST(EmitBatchNorm, WithoutDxTheParametersGradientsAreMadeStill) {
  OneShard shard(kNorm, kSixImages);
  shard.DoNotWant(D(X()));
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("batch_norm_backward_sums read x, read dy, read sums, "
                                                 "write gradient_sums, write dw, write db"));
}

TEST(EmitLayerNorm, OperandsStandInTheOrderOfTheOps) {
  for (const std::vector<Shape>& x : {kSixImages, {{6, 10}}}) {
    OneShard shard(LayerNorm{.epsilon = 0.25}, x);
    EXPECT_THAT(shard.ForwardWords(), ElementsAre("layer_norm_forward read x, read w, read b, write y, write moments"));
    EXPECT_EQ(shard.Forward()[0].op, program::Op(program::LayerNormForward{.epsilon = 0.25}));
    const char* weights = "layer_norm_backward_weights read x, read dy, read moments, write dw, write db";
    EXPECT_THAT(shard.BackwardWords(),
                ElementsAre(weights, "layer_norm_backward_data read x, read dy, read moments, read w, write dx"));
    shard.DoNotWant(D(X()));
    EXPECT_THAT(shard.BackwardWords(), ElementsAre(weights)) << "nobody needs the gradient of images";
  }
}

// They are the same, but for what nobody reads.
TEST(EmitLayerNorm, EvaluationIsTrainingsForward) {
  const OneShard shard(LayerNorm{.epsilon = 0.25}, kSixImages, {.train = false});
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("layer_norm_forward read x, read w, read b, write y, write moments"));
  EXPECT_EQ(shard.Forward()[0].op, program::Op(program::LayerNormForward{.epsilon = 0.25}));
}

TEST(EmitLayerNorm, FlopsAreOfTheElements) {
  const OneShard shard(LayerNorm{}, kSixImages);
  const int64_t x = 6 * 4 * 25;
  EXPECT_EQ(shard.Forward()[0].flops, 8 * x);
  EXPECT_EQ(shard.Backward()[0].flops, 5 * x);
  EXPECT_EQ(shard.Backward()[1].flops, 11 * x);
}

}  // namespace
}  // namespace colonnade::layers
