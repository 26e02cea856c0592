// What the stages of each layer compute on one shard: ops, operands in the order of program/op.h, regions, and work.
// Products and normalisations have files of their own, emit_products_test.cc and emit_norms_test.cc.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"
#include "tests/layers/one_shard.h"

namespace colonnade::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EmitConcat, EachInputFillsItsRegionAndEachGradientIsReadFromIt) {
  OneShard shard(Concat{}, {{2, 4, 5, 5}, {2, 1, 5, 5}, {2, 3, 5, 5}});
  EXPECT_THAT(shard.ForwardWords(),
              ElementsAre("copy read x0, write y[0:2,0:4,0:5,0:5]", "copy read x1, write y[0:2,4:5,0:5,0:5]",
                          "copy read x2, write y[0:2,5:8,0:5,0:5]"));
  shard.DoNotWant(D(X(1)));
  EXPECT_THAT(shard.BackwardWords(),
              ElementsAre("copy read dy[0:2,0:4,0:5,0:5], write dx0", "copy read dy[0:2,5:8,0:5,0:5], write dx2"));
}

// Of whole inputs of 4, 2 and 6 channels.
TEST(EmitConcat, OnColumnsPartsOfTheInputsAreSideBySide) {
  OneShard shard(Concat{}, ShapesOf(Concat{}, {{2, 2, 5, 5}, {2, 1, 5, 5}, {2, 3, 5, 5}}),
                 ShapesOf(Concat{}, {{2, 4, 5, 5}, {2, 2, 5, 5}, {2, 6, 5, 5}}));
  EXPECT_THAT(shard.ForwardWords(),
              ElementsAre("copy read x0, write y[0:2,0:2,0:5,0:5]", "copy read x1, write y[0:2,2:3,0:5,0:5]",
                          "copy read x2, write y[0:2,3:6,0:5,0:5]"));
  shard.DoNotWant(D(X(1)));
  EXPECT_THAT(shard.BackwardWords(),
              ElementsAre("copy read dy[0:2,0:2,0:5,0:5], write dx0", "copy read dy[0:2,3:6,0:5,0:5], write dx2"));
}

TEST(EmitAdd, SumsForwardAndHasNoOpsBackward) {
  OneShard shard(Add{}, {kFlat[0], kFlat[0], kFlat[0]});
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("sum read x0, read x1, read x2, write y"));
  EXPECT_EQ(shard.Forward()[0].flops, 2 * 24);
  EXPECT_THAT(shard.BackwardWords(), IsEmpty());
}

const std::vector<Shape> kNarrow = {{2, 4, 5, 5}, {2, 3, 5, 5}};

TEST(EmitAddNarrow, AddsToTheFirstChannelsAndCopiesTheOthers) {
  const OneShard shard(AddNarrow{}, kNarrow);
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("sum read x0[0:2,0:3,0:5,0:5], read x1, write y[0:2,0:3,0:5,0:5]",
                                                "copy read x0[0:2,3:4,0:5,0:5], write y[0:2,3:4,0:5,0:5]"));
  EXPECT_EQ(shard.Forward()[0].flops, 150);
  EXPECT_EQ(shard.Forward()[1].flops, 0);
}

TEST(EmitAddNarrow, OfEqualChannelsIsASum) {
  const OneShard shard(AddNarrow{}, {kImage[0], kImage[0]});
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("sum read x0, read x1, write y"));
}

// The wide input's gradient is dy itself.
TEST(EmitAddNarrow, BackwardCopiesTheFirstChannelsAlone) {
  OneShard shard(AddNarrow{}, kNarrow);
  EXPECT_THAT(shard.StageWords(1), IsEmpty());
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("copy read dy[0:2,0:3,0:5,0:5], write dx1"));
  EXPECT_EQ(shard.Backward()[0].flops, 0);
  shard.DoNotWant(D(X(1)));
  EXPECT_THAT(shard.BackwardWords(), IsEmpty());
}

TEST(EmitElementwise, OperandsStandInTheOrderOfTheOp) {
  const OneShard relu(Relu{}, kImage);
  EXPECT_THAT(relu.ForwardWords(), ElementsAre("relu_forward read x, write y"));
  EXPECT_THAT(relu.BackwardWords(), ElementsAre("relu_backward read y, read dy, write dx"));
  const OneShard gelu(Gelu{}, kImage);
  EXPECT_THAT(gelu.ForwardWords(), ElementsAre("gelu_forward read x, write y"));
  EXPECT_THAT(gelu.BackwardWords(), ElementsAre("gelu_backward read x, read dy, write dx"));
  const OneShard flatten(Flatten{}, kImage);
  EXPECT_THAT(flatten.ForwardWords(), ElementsAre("copy read x, write y"));
  EXPECT_THAT(flatten.BackwardWords(), ElementsAre("copy read dy, write dx"));
}

TEST(EmitPool, MaximumNotesItsPlaceInTraining) {
  const MaxPool pool{.kernel = 3, .stride = 2, .pad = 1};
  const OneShard train(pool, kImage), eval(pool, kImage, {.train = false});
  EXPECT_THAT(train.ForwardWords(), ElementsAre("max_pool_forward read x, write y, write argmax"));
  EXPECT_THAT(eval.ForwardWords(), ElementsAre("max_pool_forward read x, write y"));
  EXPECT_THAT(train.BackwardWords(), ElementsAre("max_pool_backward read argmax, read dy, write dx"));
  EXPECT_EQ(train.Forward()[0].op, program::Op(program::MaxPoolForward{{3, 3, 2, 2, 1, 1, 1, 1}}));
  const std::vector<InnerSpec>& inner = train.stages().inner;
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_EQ(inner[0].dtype, program::DType::kU8);
  EXPECT_EQ(inner[0].shape, (Shape{2, 4, 3, 3}));
}

TEST(EmitPool, StrideZeroIsTheKernelAndMeansLeaveNothingForBackward) {
  const OneShard shard(AvgPool{.kernel = 2, .count_pad = false}, kImage);
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("avg_pool_forward read x, write y"));
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("avg_pool_backward read dy, write dx"));
  EXPECT_EQ(shard.Backward()[0].op, program::Op(program::AvgPoolBackward{{2, 2, 2, 2}, false}));
  EXPECT_THAT(shard.stages().inner, IsEmpty());
}

TEST(EmitPool, RoundingUpIsPaddingBehind) {
  const std::vector<Shape> image = {{2, 4, 8, 5}};
  const program::Window window{3, 3, 2, 2, 0, 0, 1, 0}, padded{3, 3, 2, 2, 1, 1, 2, 1};
  const OneShard max(MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true}, image);
  EXPECT_EQ(max.Forward()[0].op, program::Op(program::MaxPoolForward{window}));
  EXPECT_EQ(max.Backward()[0].op, program::Op(program::MaxPoolBackward{window}));
  const OneShard mean(AvgPool{.kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true}, image);
  EXPECT_EQ(mean.Forward()[0].op, program::Op(program::AvgPoolForward{padded}));
  EXPECT_EQ(mean.Backward()[0].op, program::Op(program::AvgPoolBackward{padded}));
}

TEST(EmitPool, AnOblongMeanCountsAllOfItsCells) {
  const OneShard shard(AvgPool{.kernel = 5, .kernel_w = 4}, {{2, 4, 5, 8}});
  EXPECT_EQ(shard.Forward()[0].op, program::Op(program::AvgPoolForward{{5, 4, 5, 4}}));
  EXPECT_EQ(shard.Backward()[0].op, program::Op(program::AvgPoolBackward{{5, 4, 5, 4}}));
  EXPECT_EQ(shard.Forward()[0].flops, 2 * 4 * 2 * 20);
}

TEST(EmitLrn, GroupsAreThoseOfTheShardAndTrainingKeepsNothing) {
  const Lrn lrn{.size = 3, .groups = 4, .alpha = 0.5, .beta = 0.25, .k = 1};
  const LayerShapes whole = ShapesOf(lrn, {{2, 8, 5, 5}});
  LayerShapes local = whole;
  EXPECT_EQ(std::get<program::LrnForward>(OneShard(lrn, local, whole).Forward()[0].op).groups, 4);
  for (int64_t groups : {1, 2}) {  // blocks of two channels
    local.inputs[0][1] = local.output[1] = 2 * groups;
    const OneShard shard(lrn, local, whole);
    EXPECT_THAT(shard.ForwardWords(), ElementsAre("lrn_forward read x, write y"));
    EXPECT_THAT(shard.BackwardWords(), ElementsAre("lrn_backward read x, read dy, write dx"));
    EXPECT_EQ(shard.Forward()[0].op, program::Op(program::LrnForward{3, groups, 0.5, 0.25, 1}));
    EXPECT_EQ(shard.Backward()[0].op, program::Op(program::LrnBackward{3, groups, 0.5, 0.25, 1}));
    // Of each element: size squares and their sum, then a power; backward does that again, and twice as much.
    EXPECT_EQ(shard.Forward()[0].flops, 2 * 2 * groups * 25 * (2 * 3 + 10));
    EXPECT_EQ(shard.Backward()[0].flops, 3 * shard.Forward()[0].flops);
    const OneShard eval(lrn, local, whole, {.train = false});
    EXPECT_THAT(eval.ForwardWords(), ElementsAre("lrn_forward read x, write y"));
  }
}

// Flop can be counted, whatever a file says.
TEST(EmitLrn, AWindowBeyondAllChannelsCountsWhatThereIs) {
  const Lrn wide{.size = 999'999'999'999};
  const LayerShapes shapes = ShapesOf(wide, {{2, 8, 5, 5}});
  EXPECT_EQ(OneShard(wide, shapes, shapes).Forward()[0].flops, 2 * 8 * 25 * (2 * 16 + 10));
}

TEST(EmitAvgPool, AWindowBeyondTheImageCountsTheImage) {
  const AvgPool wide{.kernel = 1 << 20, .stride = 1 << 20, .pad = (1 << 20) - 1};
  const LayerShapes shapes = ShapesOf(wide, {{1, 2, 6, 5}});
  const OneShard shard(wide, shapes, shapes);
  const int64_t outputs = program::ElementCount(shapes.output);
  EXPECT_GT(outputs, 0);
  EXPECT_EQ(shard.Forward()[0].flops, outputs * 6 * 5);
  EXPECT_EQ(shard.Backward()[0].flops, outputs * 6 * 5);
}

TEST(CountedFlops, EndsWhereSumsCouldNotBeCounted) {
  EXPECT_EQ(CountedFlops(12345), 12345);
  EXPECT_EQ(CountedFlops(1e30), int64_t{1} << 46);
}

TEST(EmitDropout, BothPassesDrawTheMaskOfTheShardsPlaceInTheGlobalTensor) {
  const Layer dropout = Dropout{.rate = 0.25, .stream = 77};
  OneShard shard(dropout, ShapesOf(dropout, kFlat), ShapesOf(dropout, {{4, 24}}));
  shard.Offset({4, 24}, {2, 12});
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("dropout read scalars, read x, write y"));
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("dropout read scalars, read dy, write dx"));
  const program::Op expected = program::Dropout{.rate = 0.25, .stream = 77, .global_shape = {4, 24}, .offset = {2, 12}};
  EXPECT_EQ(shard.Forward()[0].op, expected);
  EXPECT_EQ(shard.Backward()[0].op, expected);
}

TEST(EmitDropout, OfAnEvaluationHasNoOps) { EXPECT_THAT(OneShard(Dropout{}, kFlat, {.train = false}).Forward(), IsEmpty()); }

TEST(EmitLoss, TheLabelsAreTheSecondInputAndTheProbabilitiesAreAlwaysWritten) {
  for (bool train : {true, false}) {
    EXPECT_THAT(OneShard(SoftmaxCrossEntropy{}, kFlat, {.train = train}).ForwardWords(),
                ElementsAre("softmax_cross_entropy_forward read x, read labels, write probabilities, write metrics"));
  }
  EXPECT_THAT(OneShard(SoftmaxCrossEntropy{}, kFlat).BackwardWords(),
              ElementsAre("softmax_cross_entropy_backward read label_count, read probabilities, read labels, write dx"));
}

TEST(EmitInput, IsNothing) { EXPECT_THAT(Stages(Layer{Input{{4, 5, 5}}}, {}, {}).stages, IsEmpty()); }

// A stage of which nobody wants anything does not run.
TEST(EmitBackward, ComputesNoGradientThatNobodyNeeds) {
  for (const Layer& layer : {Layer{Relu{}}, Layer{Gelu{}}, Layer{MaxPool{}}, Layer{AvgPool{}}, Layer{Lrn{}},
                             Layer{Dropout{}}, Layer{Flatten{}}}) {
    const OneShard shard(layer, kImage);
    EXPECT_EQ(shard.Backward().size(), 1u) << TypeName(layer);
    EXPECT_THAT(shard.stages().stages[1].writes, ElementsAre(D(X()))) << TypeName(layer);
  }
  OneShard concat(Concat{}, {kImage[0], kImage[0]});
  EXPECT_EQ(concat.Stage(1).size(), 2u);
  concat.DoNotWant(D(X(0)));
  EXPECT_EQ(concat.Stage(1).size(), 1u);
  OneShard conv(Conv2d{.out_channels = 4, .kernel = 3}, kImage), fc(FullyConnected{.out_features = 4}, kFlat);
  conv.DoNotWant(D(X(0)));
  fc.DoNotWant(D(X(0)));
  EXPECT_THAT(conv.BackwardWords(), ElementsAre("conv_backward_weights read x, read dy, write dw, write db"));
  EXPECT_THAT(fc.BackwardWords(), ElementsAre("fully_connected_backward_weights read x, read dy, write dw, write db"));
}

}  // namespace
}  // namespace colonnade::layers
