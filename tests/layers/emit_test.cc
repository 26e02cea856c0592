// What one shard of each layer computes: ops, operands in the order of program/op.h, regions, and work.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"

namespace colonnade::layers {
namespace {

using program::Region;
using program::Shape;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The operands of one shard, each with a name, and the ops that a layer emits on them in words.
class OneShard {
 public:
  OneShard(Layer layer, const LayerShapes& local, bool train = true) : layer_(std::move(layer)) {
    const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(layer_);
    for (size_t i = 0; i < local.inputs.size(); ++i) {
      forward.inputs.push_back(Make(local.inputs.size() > 1 ? absl::StrCat("x", i) : "x", local.inputs[i]));
    }
    if (loss) forward.inputs.push_back(Make("labels", {local.inputs[0][0]}));
    const std::vector<std::string> parameters = {"w", "b"};
    for (size_t i = 0; i < local.parameters.size(); ++i) {
      forward.parameters.push_back(Make(parameters[i], local.parameters[i]));
    }
    forward.output = loss ? Make("metrics", {program::kMetricCount}) : Make("y", local.output);
    if (train || loss) {
      for (const SavedSpec& saved : Saved(layer_, local)) forward.saved.push_back(Make(saved.name, saved.shape));
    }
    forward.scalars = Make("scalars", {program::kStepScalarCount});
    forward.train = train;
    forward.global_output_shape = local.global_output;
    forward.output_region = Region::Whole(local.output);

    backward = {.inputs = forward.inputs,
                .parameters = forward.parameters,
                .output = forward.output,
                .saved = forward.saved,
                .scalars = forward.scalars,
                .global_output_shape = forward.global_output_shape,
                .output_region = forward.output_region};
    if (!loss) backward.d_output = Make("dy", local.output);
    for (size_t i = 0; i < local.inputs.size(); ++i) {
      backward.d_inputs.push_back(Make(local.inputs.size() > 1 ? absl::StrCat("dx", i) : "dx", local.inputs[i]));
    }
    for (size_t i = 0; i < local.parameters.size(); ++i) {
      backward.d_parameters.push_back(Make("d" + parameters[i], local.parameters[i]));
    }
  }
  OneShard(const Layer& layer, const std::vector<Shape>& inputs, bool train = true)
      : OneShard(layer, ShapesOf(layer, inputs), train) {}

  std::vector<EmittedOp> Forward() const { return EmitForward(layer_, forward); }
  std::vector<EmittedOp> Backward() const { return EmitBackward(layer_, backward); }
  std::vector<std::string> ForwardWords() const { return Words(Forward()); }
  std::vector<std::string> BackwardWords() const { return Words(Backward()); }

  ForwardShard forward;
  BackwardShard backward;

 private:
  Operand Make(std::string name, Shape shape) {
    operands_.push_back({std::move(name), shape});
    return {program::BufferId{static_cast<int32_t>(operands_.size()) - 1}, std::move(shape)};
  }

  // "conv_forward read x, read w, write y"; a region is told where it is not the whole operand.
  std::vector<std::string> Words(const std::vector<EmittedOp>& ops) const {
    std::vector<std::string> lines;
    for (const EmittedOp& op : ops) {
      std::string line = Name(op.op);
      const char* comma = " ";
      for (const program::BufferUse& use : op.uses) {
        const auto& [name, shape] = operands_[use.buffer.value];
        absl::StrAppend(&line, comma, Name(use.access), " ", name);
        if (use.region != Region::Whole(shape)) absl::StrAppend(&line, ToString(use.region));
        comma = ", ";
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  Layer layer_;
  std::vector<std::pair<std::string, Shape>> operands_;
};

const std::vector<Shape> kImage = {{2, 4, 5, 5}};
const std::vector<Shape> kFlat = {{2, 12}};

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
  LayerShapes local = ShapesOf(conv, kImage);
  EXPECT_EQ(std::get<program::ConvForward>(OneShard(conv, local).Forward()[0].op).groups, 4);
  local.inputs[0][1] = 2;  // half of the groups
  local.parameters[0][0] = local.parameters[1][0] = local.output[1] = 4;
  const OneShard half(conv, local);
  const program::Window window{3, 3, 2, 2, 1, 1, 1, 1};
  EXPECT_EQ(half.Forward()[0].op, program::Op(program::ConvForward{.window = window, .groups = 2, .bias = true}));
  EXPECT_EQ(half.Backward()[0].op, program::Op(program::ConvBackwardWeights{.window = window, .groups = 2, .bias = true}));
  EXPECT_EQ(half.Backward()[1].op, program::Op(program::ConvBackwardData{.window = window, .groups = 2}));
}

TEST(EmitConv2d, WorkIsTwoFlopsPerMultiplyAddAndEachOperandOnce) {
  const OneShard shard(Conv2d{.out_channels = 8, .kernel = 3, .groups = 2, .bias = false}, kImage);
  const int64_t x = 2 * 4 * 25, w = 8 * 2 * 9, y = 2 * 8 * 9, flops = 2 * y * 2 * 9;
  EXPECT_EQ(shard.Forward()[0].work, (program::Work{flops, 4 * (x + w), 4 * y, 0}));
  EXPECT_EQ(shard.Backward()[0].work, (program::Work{flops, 4 * (x + y), 4 * w, 0}));
  EXPECT_EQ(shard.Backward()[1].work, (program::Work{flops, 4 * (y + w), 4 * x, 0}));
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
  EXPECT_EQ(without.Forward()[0].work, (program::Work{flops, 4 * (24 + 84), 4 * 14, 0}));
  EXPECT_EQ(without.Backward()[1].work, (program::Work{flops, 4 * (14 + 84), 4 * 24, 0}));
}

TEST(EmitConcat, EachInputFillsItsRegionAndEachGradientIsReadFromIt) {
  OneShard shard(Concat{}, {{2, 4, 5, 5}, {2, 1, 5, 5}, {2, 3, 5, 5}});
  EXPECT_THAT(shard.ForwardWords(),
              ElementsAre("copy read x0, write y[0:2,0:4,0:5,0:5]", "copy read x1, write y[0:2,4:5,0:5,0:5]",
                          "copy read x2, write y[0:2,5:8,0:5,0:5]"));
  shard.backward.d_inputs[1].reset();
  EXPECT_THAT(shard.BackwardWords(),
              ElementsAre("copy read dy[0:2,0:4,0:5,0:5], write dx0", "copy read dy[0:2,5:8,0:5,0:5], write dx2"));
}

TEST(EmitAdd, SumsForwardAndCopiesTheGradientBackward) {
  OneShard shard(Add{}, {kFlat[0], kFlat[0], kFlat[0]});
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("sum read x0, read x1, read x2, write y"));
  EXPECT_EQ(shard.Forward()[0].work, (program::Work{2 * 24, 4 * 72, 4 * 24, 0}));
  shard.backward.d_inputs[0].reset();
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("copy read dy, write dx1", "copy read dy, write dx2"));
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
  const OneShard train(pool, kImage), eval(pool, kImage, /*train=*/false);
  EXPECT_THAT(train.ForwardWords(), ElementsAre("max_pool_forward read x, write y, write argmax"));
  EXPECT_THAT(eval.ForwardWords(), ElementsAre("max_pool_forward read x, write y"));
  EXPECT_THAT(train.BackwardWords(), ElementsAre("max_pool_backward read argmax, read dy, write dx"));
  EXPECT_EQ(train.Forward()[0].op, program::Op(program::MaxPoolForward{{3, 3, 2, 2, 1, 1, 1, 1}}));
  const std::vector<SavedSpec> saved = Saved(Layer{pool}, ShapesOf(pool, kImage));
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].dtype, program::DType::kU8);
  EXPECT_EQ(saved[0].shape, (Shape{2, 4, 3, 3}));
}

TEST(EmitPool, StrideZeroIsTheKernelAndMeansNeedNothingSaved) {
  const OneShard shard(AvgPool{.kernel = 2, .count_pad = false}, kImage);
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("avg_pool_forward read x, write y"));
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("avg_pool_backward read dy, write dx"));
  EXPECT_EQ(shard.Backward()[0].op, program::Op(program::AvgPoolBackward{{2, 2, 2, 2}, false}));
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
  EXPECT_EQ(shard.Forward()[0].work.flops, 2 * 4 * 2 * 20);
}

TEST(EmitLrn, GroupsAreThoseOfTheShardAndTheScaleIsSavedInTraining) {
  const Lrn lrn{.size = 3, .groups = 4, .alpha = 0.5, .beta = 0.25, .k = 1};
  LayerShapes local = ShapesOf(lrn, {{2, 8, 5, 5}});
  EXPECT_EQ(std::get<program::LrnForward>(OneShard(lrn, local).Forward()[0].op).groups, 4);
  for (int64_t groups : {1, 2}) {  // blocks of two channels
    local.inputs[0][1] = local.output[1] = 2 * groups;
    const OneShard shard(lrn, local);
    EXPECT_THAT(shard.ForwardWords(), ElementsAre("lrn_forward read x, write y, write scale"));
    EXPECT_THAT(shard.BackwardWords(), ElementsAre("lrn_backward read x, read scale, read dy, write dx"));
    EXPECT_EQ(shard.Forward()[0].op, program::Op(program::LrnForward{3, groups, 0.5, 0.25, 1}));
    EXPECT_EQ(shard.Backward()[0].op, program::Op(program::LrnBackward{3, groups, 0.5, 0.25, 1}));
    const int64_t bytes = 4 * 2 * 2 * groups * 25;
    // Of each element: size squares and their sum, then a power; backward does twice as much.
    EXPECT_EQ(shard.Forward()[0].work.flops, 2 * 2 * groups * 25 * (2 * 3 + 10));
    EXPECT_EQ(shard.Backward()[0].work.flops, 2 * shard.Forward()[0].work.flops);
    EXPECT_EQ(shard.Forward()[0].work.bytes_written, 2 * bytes);
    const OneShard eval(lrn, local, /*train=*/false);
    EXPECT_THAT(eval.ForwardWords(), ElementsAre("lrn_forward read x, write y"));
    EXPECT_EQ(eval.Forward()[0].work.bytes_written, bytes);
  }
}

TEST(EmitDropout, BothPassesDrawTheMaskOfTheShardsPlaceInTheGlobalTensor) {
  OneShard shard(Dropout{.rate = 0.25, .stream = 77}, kFlat);
  shard.forward.global_output_shape = shard.backward.global_output_shape = {4, 24};
  shard.forward.output_region.offset = shard.backward.output_region.offset = {2, 12};
  EXPECT_THAT(shard.ForwardWords(), ElementsAre("dropout read scalars, read x, write y"));
  EXPECT_THAT(shard.BackwardWords(), ElementsAre("dropout read scalars, read dy, write dx"));
  const program::Op expected = program::Dropout{.rate = 0.25, .stream = 77, .global_shape = {4, 24}, .offset = {2, 12}};
  EXPECT_EQ(shard.Forward()[0].op, expected);
  EXPECT_EQ(shard.Backward()[0].op, expected);
  EXPECT_THAT(OneShard(Dropout{}, kFlat, /*train=*/false).ForwardWords(), ElementsAre("copy read x, write y"));
}

TEST(EmitLoss, TheLabelsAreTheSecondInputAndTheProbabilitiesAreAlwaysWritten) {
  for (bool train : {true, false}) {
    EXPECT_THAT(OneShard(SoftmaxCrossEntropy{}, kFlat, train).ForwardWords(),
                ElementsAre("softmax_cross_entropy_forward read x, read labels, write probabilities, write metrics"));
  }
  EXPECT_THAT(OneShard(SoftmaxCrossEntropy{}, kFlat).BackwardWords(),
              ElementsAre("softmax_cross_entropy_backward read scalars, read probabilities, read labels, write dx"));
}

TEST(EmitInput, IsNothing) {
  ForwardShard forward;
  EXPECT_THAT(EmitForward(Layer{Input{{4, 5, 5}}}, forward), IsEmpty());
  EXPECT_THAT(EmitBackward(Layer{Input{{4, 5, 5}}}, BackwardShard{}), IsEmpty());
}

TEST(EmitBackward, ComputesNoGradientThatNobodyNeeds) {
  for (const Layer& layer : {Layer{Relu{}}, Layer{Gelu{}}, Layer{MaxPool{}}, Layer{AvgPool{}}, Layer{Lrn{}},
                             Layer{Dropout{}}, Layer{Flatten{}}, Layer{Add{}}, Layer{Concat{}}}) {
    OneShard shard(layer, kImage);
    EXPECT_EQ(shard.Backward().size(), 1u) << TypeName(layer);
    shard.backward.d_inputs[0].reset();
    EXPECT_THAT(shard.Backward(), IsEmpty()) << TypeName(layer);
  }
  OneShard conv(Conv2d{.out_channels = 4, .kernel = 3}, kImage), fc(FullyConnected{.out_features = 4}, kFlat);
  conv.backward.d_inputs[0].reset();
  fc.backward.d_inputs[0].reset();
  EXPECT_THAT(conv.BackwardWords(), ElementsAre("conv_backward_weights read x, read dy, write dw, write db"));
  EXPECT_THAT(fc.BackwardWords(), ElementsAre("fully_connected_backward_weights read x, read dy, write dw, write db"));
}

}  // namespace
}  // namespace colonnade::layers
