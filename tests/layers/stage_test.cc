// Which stages layers have: what each reads and writes, and what lowering may do with it.
#include "layers/stage.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/layers/layer_case.h"

namespace colonnade::layers {
namespace {

using program::Pass;
using program::Shape;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "x0", "p1", "v0", "y"; "dx0" of a gradient.
std::string Words(Slot slot) {
  const std::string kinds[] = {"x", "p", "v", "y"};
  const std::string number = slot.kind == Slot::Kind::kOutput ? "" : absl::StrCat(slot.index);
  return absl::StrCat(slot.gradient ? "d" : "", kinds[static_cast<int>(slot.kind)], number);
}

// "forward: x0 p0 p1 -> y"
std::vector<std::string> Words(const LayerStages& stages) {
  std::vector<std::string> lines;
  for (const Stage& stage : stages.stages) {
    lines.push_back(stage.pass == Pass::kForward ? "forward:" : "backward:");
    for (Slot slot : stage.reads) absl::StrAppend(&lines.back(), " ", Words(slot));
    absl::StrAppend(&lines.back(), " ->");
    for (Slot slot : stage.writes) absl::StrAppend(&lines.back(), " ", Words(slot));
  }
  return lines;
}

LayerStages StagesOf(const Layer& layer, const std::vector<Shape>& inputs, const std::vector<Strategy>& strategies = {}) {
  return Stages(layer, ShapesOf(layer, inputs), {.strategies = strategies});
}

const std::vector<Shape> kImage = {{2, 4, 5, 5}}, kFlat = {{6, 10}};

TEST(Stages, AProductReadsXWeightAndBiasAndMakesTheGradientsOfAllThree) {
  for (const LayerStages& stages : {StagesOf(Conv2d{.out_channels = 8, .kernel = 3}, kImage),
                                    StagesOf(FullyConnected{.out_features = 7}, kFlat, {Strategy::kColumn})}) {
    EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 p1 -> y", "backward: x0 p0 dy -> dp0 dp1 dx0"));
    EXPECT_THAT(stages.inner, IsEmpty());
  }
  const LayerStages without = StagesOf(Conv2d{.out_channels = 8, .kernel = 3, .bias = false}, kImage);
  EXPECT_THAT(Words(without), ElementsAre("forward: x0 p0 -> y", "backward: x0 p0 dy -> dp0 dx0"));
}

// On whichever axis: the sum z over devices is whole before the bias is added to it.
TEST(Stages, AProductByRowsAddsItsBiasInAStageOfItsOwn) {
  for (const std::vector<Strategy>& strategies : std::vector<std::vector<Strategy>>{
           {Strategy::kRow}, {Strategy::kBatch, Strategy::kRow}, {Strategy::kRow, Strategy::kColumn}}) {
    const LayerStages stages = StagesOf(Conv2d{.out_channels = 8, .kernel = 3}, kImage, strategies);
    EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 -> v0", "forward: v0 p1 -> y", "backward: dy -> dp1",
                                           "backward: x0 p0 dy -> dp0 dx0"));
    ASSERT_EQ(stages.inner.size(), 1u);
    EXPECT_EQ(stages.inner[0].name, "z");
    EXPECT_EQ(stages.inner[0].shape, (Shape{2, 8, 3, 3}));
  }
}

TEST(Stages, AProductByRowsWithoutABiasHasOneStageInEachPass) {
  const LayerStages stages = StagesOf(FullyConnected{.out_features = 7, .bias = false}, kFlat, {Strategy::kRow});
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 -> y", "backward: x0 p0 dy -> dp0 dx0"));
  EXPECT_THAT(stages.inner, IsEmpty());
}

TEST(Stages, ALossReadsLabelsLastMakesMetricsAndHasNoDy) {
  const LayerShapes shapes = ShapesOf(SoftmaxCrossEntropy{}, kFlat);
  EXPECT_THAT(shapes.inputs, ElementsAre(Shape{6, 10}, Shape{6}));
  EXPECT_EQ(shapes.output, Shape{program::kMetricCount});
  const LayerStages stages = StagesOf(SoftmaxCrossEntropy{}, kFlat);
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 x1 -> y v0", "backward: x1 v0 -> dx0")) << "labels have no gradient";
}

TEST(Stages, TheProbabilitiesAloneAreMadeWhereNobodyReadsThem) {
  const std::vector<InnerSpec> loss = StagesOf(SoftmaxCrossEntropy{}, kFlat).inner;
  ASSERT_EQ(loss.size(), 1u);
  EXPECT_EQ(loss[0].name, "probabilities");
  EXPECT_EQ(loss[0].shape, (Shape{6, 10}));
  EXPECT_TRUE(loss[0].required);
  EXPECT_FALSE(StagesOf(MaxPool{}, kImage).inner[0].required);
  EXPECT_FALSE(StagesOf(Lrn{}, kImage).inner[0].required);
  EXPECT_FALSE(StagesOf(FullyConnected{.out_features = 7}, kFlat, {Strategy::kRow}).inner[0].required);
}

// In bf16, z is what the product's kernel writes, and scale and probabilities are not rounded.
TEST(Stages, InnerTensorsThatAreNotRoundedAreInTheMasterType) {
  EXPECT_TRUE(StagesOf(SoftmaxCrossEntropy{}, kFlat).inner[0].in_master_type);
  EXPECT_TRUE(StagesOf(Lrn{}, kImage).inner[0].in_master_type);
  EXPECT_EQ(StagesOf(MaxPool{}, kImage).inner[0].dtype, program::DType::kU8);
  const InnerSpec z = StagesOf(FullyConnected{.out_features = 7}, kFlat, {Strategy::kRow}).inner[0];
  EXPECT_FALSE(z.in_master_type);
  EXPECT_FALSE(z.dtype.has_value());
}

// What lowering fuses and moves, by layer.
TEST(Stages, ProductsTakeAnEpilogueAndAReluIsOneThatMasks) {
  const auto flags = [](const LayerStages& stages) {
    std::vector<std::string> lines;
    for (const Stage& stage : stages.stages) {
      lines.push_back(stage.takes_epilogue ? "takes" : "");
      if (stage.epilogue == program::Activation::kRelu) lines.back() += "relu";
      if (stage.epilogue == program::Activation::kGelu) lines.back() += "gelu";
      if (stage.masks) lines.back() += "masks";
      if (stage.routes) lines.back() += "routes";
    }
    return lines;
  };
  EXPECT_THAT(flags(StagesOf(Conv2d{.out_channels = 8}, kImage)), ElementsAre("takes", ""));
  EXPECT_THAT(flags(StagesOf(FullyConnected{.out_features = 7}, kFlat)), ElementsAre("takes", ""));
  EXPECT_THAT(flags(StagesOf(Relu{}, kImage)), ElementsAre("relu", "masks"));
  EXPECT_THAT(flags(StagesOf(MaxPool{}, kImage)), ElementsAre("", "routes"));
  for (const Layer& layer :
       {Layer{Gelu{}}, Layer{AvgPool{}}, Layer{Lrn{}}, Layer{Dropout{}}, Layer{Flatten{}}, Layer{Add{}}, Layer{Concat{}}}) {
    EXPECT_THAT(flags(StagesOf(layer, kImage)), ElementsAre("", "")) << TypeName(layer);
  }
  EXPECT_THAT(flags(StagesOf(SoftmaxCrossEntropy{}, kFlat)), ElementsAre("", ""));
}

// The op that adds a bias knows no activation.
TEST(Stages, AStageThatAddsABiasTakesNoEpilogue) {
  EXPECT_FALSE(StagesOf(FullyConnected{.out_features = 7}, kFlat, {Strategy::kRow}).stages[1].takes_epilogue);
}

struct Case {
  std::string name;
  Layer layer;
  std::vector<Shape> inputs;
  std::vector<Strategy> strategies{};
};

// What lowering relies on, of every layer.
class EveryLayersStages : public ::testing::TestWithParam<Case> {
 protected:
  LayerStages stages() const { return StagesOf(GetParam().layer, GetParam().inputs, GetParam().strategies); }
  static int WritersOf(const LayerStages& stages, Slot slot, Pass pass) {
    int writers = 0;
    for (const Stage& stage : stages.stages) {
      if (stage.pass == pass) writers += static_cast<int>(std::count(stage.writes.begin(), stage.writes.end(), slot));
    }
    return writers;
  }
};

TEST_P(EveryLayersStages, ForwardsComeBeforeBackwards) {
  const LayerStages of = stages();
  EXPECT_TRUE(std::is_sorted(of.stages.begin(), of.stages.end(), [](const Stage& a, const Stage& b) {
    return a.pass == Pass::kForward && b.pass == Pass::kBackward;
  }));
}

TEST_P(EveryLayersStages, MakeEveryTensorOnceInItsPass) {
  const LayerStages of = stages();
  EXPECT_EQ(WritersOf(of, Y(), Pass::kForward), 1);
  for (int v = 0; v < static_cast<int>(of.inner.size()); ++v) EXPECT_EQ(WritersOf(of, Inner(v), Pass::kForward), 1) << v;
  for (int k = 0; k < static_cast<int>(GetParam().inputs.size()); ++k) {
    EXPECT_EQ(WritersOf(of, D(X(k)), Pass::kBackward), 1) << "input " << k;
  }
  const LayerShapes shapes = ShapesOf(GetParam().layer, GetParam().inputs, GetParam().strategies);
  for (int p = 0; p < static_cast<int>(shapes.parameters.size()); ++p) {
    EXPECT_EQ(WritersOf(of, D(Parameter(p)), Pass::kBackward), 1) << "parameter " << p;
  }
  size_t written = 0;
  for (const Stage& stage : of.stages) written += stage.writes.size();
  EXPECT_EQ(written, 1 + of.inner.size() + GetParam().inputs.size() + shapes.parameters.size());
}

TEST_P(EveryLayersStages, ReadWhatIsMadeBefore) {
  std::vector<Slot> made;
  for (const Stage& stage : stages().stages) {
    for (Slot slot : stage.reads) {
      const bool is_there = slot.kind == Slot::Kind::kInput || slot.kind == Slot::Kind::kParameter || slot == D(Y());
      EXPECT_TRUE(is_there || std::find(made.begin(), made.end(), slot) != made.end()) << Words(slot);
      EXPECT_TRUE(stage.pass == Pass::kBackward || !slot.gradient) << Words(slot);
    }
    made.insert(made.end(), stage.writes.begin(), stage.writes.end());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, EveryLayersStages,
    ::testing::Values(Case{"conv", Conv2d{.out_channels = 8, .kernel = 3}, kImage},
                      Case{"conv_by_rows", Conv2d{.out_channels = 8, .kernel = 3}, kImage, {Strategy::kRow}},
                      Case{"conv_without_bias", Conv2d{.out_channels = 8, .kernel = 3, .bias = false}, kImage},
                      Case{"fc", FullyConnected{.out_features = 7}, kFlat},
                      Case{"fc_by_rows", FullyConnected{.out_features = 7}, kFlat, {Strategy::kRow}},
                      Case{"concat", Concat{}, {kImage[0], kImage[0], kImage[0]}},  //
                      Case{"relu", Relu{}, kImage}, Case{"gelu", Gelu{}, kImage}, Case{"max_pool", MaxPool{}, kImage},
                      Case{"avg_pool", AvgPool{}, kImage}, Case{"lrn", Lrn{}, kImage}, Case{"dropout", Dropout{}, kImage},
                      Case{"flatten", Flatten{}, kImage}, Case{"add", Add{}, {kFlat[0], kFlat[0]}},
                      Case{"loss", SoftmaxCrossEntropy{}, kFlat}),
    [](const auto& info) { return info.param.name; });

TEST(StageShard, HasWhatWasPutThereAndAGradientIsNoValue) {
  StageShard shard;
  EXPECT_FALSE(shard.has(X()));
  shard.Put(X(1), {program::BufferId{3}, {2, 4}, {4, 4}, {2, 0}});
  shard.Put(D(Y()), {program::BufferId{5}, {2, 8}});
  EXPECT_TRUE(shard.has(X(1)));
  EXPECT_FALSE(shard.has(X(0)));
  EXPECT_FALSE(shard.has(D(X(1))));
  EXPECT_TRUE(shard.has(D(Y())));
  EXPECT_FALSE(shard.has(Y()));
  EXPECT_EQ(shard[X(1)].buffer.value, 3);
  EXPECT_EQ(shard[X(1)].shape, (Shape{2, 4}));
  EXPECT_EQ(shard[X(1)].global_shape, (Shape{4, 4}));
  EXPECT_EQ(shard[D(Y())].buffer.value, 5);
}

}  // namespace
}  // namespace colonnade::layers
