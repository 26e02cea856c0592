// What the stages of each layer compute on one shard: ops, operands in the order of program/op.h, regions, and work.
// One file for all layers, so that one sees which has no test.

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
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

// The operands of one shard, each with a name, and the ops that a layer's stages emit on them in words.
class OneShard {
 public:
  // A device that holds `local` of `whole`, from element 0 on. In evaluation no inner tensor is there that backward alone
  // would read.
  OneShard(const Layer& layer, const LayerShapes& local, const LayerShapes& whole, const StageOptions& options = {})
      : stages_(Stages(layer, whole, options)) {
    const bool loss = TraitsOf(layer).is_loss;
    const std::vector<std::string> parameters = {"w", "b"};
    for (size_t i = 0; i < local.inputs.size(); ++i) {
      const char* of_loss[] = {"x", "labels", "label_count"};
      const std::string input = local.inputs.size() == 1 ? "x" : absl::StrCat("x", i);
      Add(X(static_cast<int>(i)), loss ? of_loss[i] : input, local.inputs[i], whole.inputs[i]);
    }
    for (size_t i = 0; i < local.parameters.size(); ++i) {
      Add(Parameter(static_cast<int>(i)), parameters[i], local.parameters[i], whole.parameters[i]);
    }
    for (size_t i = 0; i < local.state.size(); ++i) {
      Add(State(static_cast<int>(i)), stages_.state[i].name, local.state[i], whole.state[i]);
    }
    const std::vector<InnerSpec> inner = Stages(layer, local, options).inner;
    for (int v = 0; v < static_cast<int>(inner.size()); ++v) {
      Add(Inner(v), inner[v].name, inner[v].shape, stages_.inner[v].shape);
      if (!options.train && !inner[v].required && !IsReadForward(Inner(v))) unwanted_.push_back(Inner(v));
    }
    Add(Y(), loss ? "metrics" : "y", local.output, whole.output);
    const size_t count = operands_.size();
    for (size_t i = 0; i < count; ++i) {
      const Named of = operands_[i];
      Add(D(of.slot), "d" + of.name, of.operand.shape, of.operand.global_shape);
    }
    Add({}, "scalars", {program::kStepScalarCount}, {});
  }
  OneShard(const Layer& layer, const std::vector<Shape>& inputs, const StageOptions& options = {})
      : OneShard(layer, ShapesOf(layer, inputs), ShapesOf(layer, inputs), options) {}

  // Nobody reads it.
  void DoNotWant(Slot slot) { unwanted_.push_back(slot); }
  // Where the part of every tensor of `of`'s extents begins in it.
  void Offset(const Shape& of, const Shape& offset) {
    for (Named& named : operands_) {
      if (named.operand.global_shape == of) named.operand.offset = offset;
    }
  }

  // With operands of what lowering fuses, which have the extents of `of`.
  std::vector<std::string> FusedWords(int index, Slot of, const std::vector<std::pair<Fused, std::string>>& fused,
                                      int64_t* flops = nullptr) {
    const Operand like = OperandOf(of);
    StageShard shard = ShardOf(stages_.stages[index]);
    for (const auto& [which, name] : fused) {
      Add({}, name, like.shape, like.global_shape);
      shard.Put(which, operands_.back().operand);
    }
    const std::vector<EmittedOp> ops = stages_.stages[index].emit(shard);
    if (flops != nullptr) *flops = ops.back().flops;
    return Words(ops);
  }
  std::vector<EmittedOp> Stage(int index, std::optional<program::Activation> epilogue = {}) const {
    const layers::Stage& stage = stages_.stages[index];
    StageShard shard = ShardOf(stage);
    shard.epilogue = epilogue;
    return stage.emit ? stage.emit(shard) : std::vector<EmittedOp>();
  }
  std::vector<EmittedOp> Forward() const { return All(program::Pass::kForward); }
  std::vector<EmittedOp> Backward() const { return All(program::Pass::kBackward); }
  std::vector<std::string> StageWords(int index) const { return Words(Stage(index)); }
  std::vector<std::string> ForwardWords() const { return Words(Forward()); }
  std::vector<std::string> BackwardWords() const { return Words(Backward()); }
  const LayerStages& stages() const { return stages_; }

  // "conv_forward read x, read w, write y"; a region is told where it is not the whole operand.
  std::vector<std::string> Words(const std::vector<EmittedOp>& ops) const {
    std::vector<std::string> lines;
    for (const EmittedOp& op : ops) {
      std::string line = Name(op.op);
      const char* comma = " ";
      for (const program::BufferUse& use : op.uses) {
        const Named& of = operands_[use.buffer.value];
        absl::StrAppend(&line, comma, Name(use.access), " ", of.name);
        if (use.region != Region::Whole(of.operand.shape)) absl::StrAppend(&line, ToString(use.region));
        comma = ", ";
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  struct Named {
    Slot slot;
    std::string name;
    Operand operand;
  };

  StageShard ShardOf(const layers::Stage& stage) const {
    StageShard shard;
    shard.scalars = operands_.back().operand;
    for (Slot slot : stage.reads) shard.Put(slot, OperandOf(slot));
    for (Slot slot : stage.writes) {
      if (!IsUnwanted(slot)) shard.Put(slot, OperandOf(slot));
    }
    return shard;
  }
  void Add(Slot slot, std::string name, const Shape& shape, const Shape& global) {
    const program::BufferId buffer{static_cast<int32_t>(operands_.size())};
    operands_.push_back({slot, std::move(name), {buffer, shape, global, Shape(shape.size(), 0)}});
  }
  const Operand& OperandOf(Slot slot) const {
    const auto is_it = [&](const Named& named) { return named.slot == slot; };
    return std::find_if(operands_.begin(), operands_.end(), is_it)->operand;
  }
  bool IsUnwanted(Slot slot) const { return std::find(unwanted_.begin(), unwanted_.end(), slot) != unwanted_.end(); }
  bool IsReadForward(Slot slot) const {
    return std::any_of(stages_.stages.begin(), stages_.stages.end(), [&](const layers::Stage& stage) {
      return stage.pass == program::Pass::kForward &&
             std::find(stage.reads.begin(), stage.reads.end(), slot) != stage.reads.end();
    });
  }

  // Of the stages of a pass of which something is wanted, or which update the state alone.
  std::vector<EmittedOp> All(program::Pass pass) const {
    std::vector<EmittedOp> all;
    for (int s = 0; s < static_cast<int>(stages_.stages.size()); ++s) {
      const std::vector<Slot>& writes = stages_.stages[s].writes;
      const bool runs =
          writes.empty() || !std::all_of(writes.begin(), writes.end(), [&](Slot slot) { return IsUnwanted(slot); });
      if (stages_.stages[s].pass != pass || !runs) continue;
      for (EmittedOp& op : Stage(s)) all.push_back(std::move(op));
    }
    return all;
  }

  LayerStages stages_;
  std::vector<Named> operands_;  // the scalars last
  std::vector<Slot> unwanted_;
};

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

// With strategy row on some axis: the sum over devices stands between the product and the bias.
TEST(EmitProduct, UnderRowTheBiasIsAddedInAStageOfItsOwn) {
  const std::vector<Strategy> row = {Strategy::kReplicate, Strategy::kRow};
  for (const auto& [layer, inputs, op] : std::vector<std::tuple<Layer, std::vector<Shape>, std::string>>{
           {Conv2d{.out_channels = 8, .kernel = 3}, kImage, "conv"},
           {FullyConnected{.out_features = 7}, kFlat, "fully_connected"}}) {
    const OneShard shard(layer, inputs, {.strategies = row});
    ASSERT_EQ(shard.stages().stages.size(), 5u);
    EXPECT_THAT(shard.StageWords(0), ElementsAre(op + "_forward read x, read w, write z"));
    EXPECT_THAT(shard.StageWords(1), ElementsAre("bias_forward read z, read b, write y"));
    EXPECT_THAT(shard.StageWords(2), ElementsAre("bias_backward read dy, write db"));
    EXPECT_THAT(shard.StageWords(3), ElementsAre(op + "_backward_weights read x, read dy, write dw"));
    EXPECT_THAT(shard.StageWords(4), ElementsAre(op + "_backward_data read dy, read w, write dx"));
  }
}

TEST(EmitProduct, UnderRowTheOpsOfTheProductHaveNoBias) {
  const std::vector<Strategy> row = {Strategy::kRow};
  const OneShard conv(Conv2d{.out_channels = 8, .kernel = 3}, kImage, {.strategies = row}),
      fc(FullyConnected{.out_features = 7}, kFlat, {.strategies = row});
  EXPECT_FALSE(std::get<program::ConvForward>(conv.Stage(0)[0].op).bias);
  EXPECT_FALSE(std::get<program::ConvBackwardWeights>(conv.Stage(3)[0].op).bias);
  EXPECT_FALSE(std::get<program::FullyConnectedForward>(fc.Stage(0)[0].op).bias);
  EXPECT_FALSE(std::get<program::FullyConnectedBackwardWeights>(fc.Stage(3)[0].op).bias);
}

TEST(EmitProduct, ABiasAddedApartIsAnAddOfEachElement) {
  const OneShard shard(FullyConnected{.out_features = 7}, kFlat, {.strategies = {Strategy::kRow}});
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
  const std::pair<Fused, std::string> mask = {Fused::kMask, "kept"}, more = {Fused::kMore, "more"},
                                      masked = {Fused::kMasked, "dz"};
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
  EXPECT_THAT(OneShard(Dropout{}, kFlat, {.train = false}).ForwardWords(), ElementsAre("copy read x, write y"));
}

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
                             Layer{Dropout{}}, Layer{Flatten{}}, Layer{Concat{}}}) {
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
