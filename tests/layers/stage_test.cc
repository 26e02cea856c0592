// Which stages layers have: what each reads and writes, and what lowering may do with it.
#include "layers/stage.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/layers/layer_case.h"
#include "tests/processor_seconds.h"

namespace colonnade::layers {
namespace {

using program::Pass;
using program::Shape;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "x0", "p1", "s0", "v0", "y"; "dx0" of a gradient.
std::string Words(Slot slot) {
  const std::string kinds[] = {"x", "p", "s", "v", "y"};
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
  return Stages(layer, ShapesOf(layer, inputs), Under(strategies));
}

const std::vector<Shape> kRows = {{6, 10}};

TEST(Stages, AProductMakesTheGradientsOfItsParametersAndOfItsInputInTwoStages) {
  for (const LayerStages& stages : {StagesOf(Conv2d{.out_channels = 8, .kernel = 3}, kImage),
                                    StagesOf(FullyConnected{.out_features = 7}, kRows, {Strategy::kColumn})}) {
    EXPECT_THAT(Words(stages),
                ElementsAre("forward: x0 p0 p1 -> y", "backward: x0 dy -> dp0 dp1", "backward: p0 dy -> dx0"));
    EXPECT_THAT(stages.inner, IsEmpty());
  }
  const LayerStages without = StagesOf(Conv2d{.out_channels = 8, .kernel = 3, .bias = false}, kImage);
  EXPECT_THAT(Words(without), ElementsAre("forward: x0 p0 -> y", "backward: x0 dy -> dp0", "backward: p0 dy -> dx0"));
}

// The sum z over devices is whole before the bias is added to it.
TEST(Stages, AProductByRowsAddsItsBiasInAStageOfItsOwn) {
  const LayerStages stages = StagesOf(Conv2d{.out_channels = 8, .kernel = 3}, kImage, {Strategy::kRow});
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 -> v0", "forward: v0 p1 -> y", "backward: dy -> dp1",
                                         "backward: x0 dy -> dp0", "backward: p0 dy -> dx0"));
  ASSERT_EQ(stages.inner.size(), 1u);
  EXPECT_EQ(stages.inner[0].name, "z");
  EXPECT_EQ(stages.inner[0].shape, (Shape{2, 8, 3, 3}));
}

TEST(Stages, AProductByRowsWithoutABiasIsMadeInOneStage) {
  const LayerStages stages = StagesOf(FullyConnected{.out_features = 7, .bias = false}, kRows, {Strategy::kRow});
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 -> y", "backward: x0 dy -> dp0", "backward: p0 dy -> dx0"));
  EXPECT_THAT(stages.inner, IsEmpty());
}

TEST(Stages, ALossReadsLabelsAndTheirCountMakesMetricsAndHasNoDy) {
  const LayerShapes shapes = ShapesOf(SoftmaxCrossEntropy{}, kRows);
  EXPECT_THAT(shapes.inputs, ElementsAre(Shape{6, 10}, Shape{6}, Shape{1}));
  EXPECT_EQ(shapes.output, Shape{program::Metric::kCount});
  const LayerStages stages = StagesOf(SoftmaxCrossEntropy{}, kRows);
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 x1 -> y v0", "backward: x1 x2 v0 -> dx0"))
      << "labels have no gradient";
}

TEST(Stages, TheProbabilitiesAloneAreMadeWhereNobodyReadsThem) {
  const std::vector<InnerSpec> loss = StagesOf(SoftmaxCrossEntropy{}, kRows).inner;
  ASSERT_EQ(loss.size(), 1u);
  EXPECT_EQ(loss[0].name, "probabilities");
  EXPECT_EQ(loss[0].shape, (Shape{6, 10}));
  EXPECT_TRUE(loss[0].required);
  EXPECT_FALSE(StagesOf(MaxPool{}, kImage).inner[0].required);
  EXPECT_FALSE(StagesOf(FullyConnected{.out_features = 7}, kRows, {Strategy::kRow}).inner[0].required);
}

// In bf16, z is summed over devices in f32, and probabilities are not rounded.
TEST(Stages, InnerTensorsThatAreNotRoundedAreInTheMasterType) {
  EXPECT_TRUE(StagesOf(SoftmaxCrossEntropy{}, kRows).inner[0].in_master_type);
  EXPECT_EQ(StagesOf(MaxPool{}, kImage).inner[0].dtype, program::DType::kU8);
  const InnerSpec z = StagesOf(FullyConnected{.out_features = 7}, kRows, {Strategy::kRow}).inner[0];
  EXPECT_TRUE(z.in_master_type);
  EXPECT_FALSE(z.dtype.has_value());
}

// Slots p are weight and bias, s running_mean and running_var, v sums, gradient_sums, recalled and totals.
TEST(Stages, ABatchNormOverTheGlobalBatchTracksTheSumsThatItNormalisesBy) {
  const LayerStages stages = StagesOf(BatchNorm{}, kImage);
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 -> v0", "forward: x0 v0 p0 p1 -> y", "forward: v0 s0 s1 ->",
                                         "backward: x0 dy v0 p0 p1 -> v1 dp0 dp1", "backward: x0 dy v0 v1 p0 p1 -> dx0"));
}

TEST(Stages, ABatchNormOverGroupsTracksTheTotalsOfAllGroups) {
  const LayerStages stages = StagesOf(BatchNorm{.samples_per_group = 1}, kImage);
  EXPECT_THAT(Words(stages), ElementsAre("forward: x0 -> v0 v3", "forward: x0 v0 p0 p1 -> y", "forward: v3 s0 s1 ->",
                                         "backward: x0 dy v0 p0 p1 -> v1 dp0 dp1", "backward: x0 dy v0 v1 p0 p1 -> dx0"));
}

TEST(Stages, ABatchNormInEvaluationMakesTheRecalledSumsAloneAndTheyAreRequired) {
  for (const Layer& norm : {Layer{BatchNorm{}}, Layer{BatchNorm{.samples_per_group = 2}}}) {
    const LayerStages train = StagesOf(norm, kImage), eval = Stages(norm, ShapesOf(norm, kImage), {.train = false});
    EXPECT_THAT(Words(eval), ElementsAre("forward: x0 s0 s1 p0 p1 -> y v2"));
    for (int v = 0; v < 4; ++v) {
      EXPECT_EQ(eval.inner[v].required, v == 2) << eval.inner[v].name;
      EXPECT_FALSE(train.inner[v].required) << train.inner[v].name;
    }
  }
}

// In every type of activations: sums in double, a mean of 0 and a variance of 1 before the first step.
TEST(Stages, ABatchNormsStateIsTheRunningMeanAndVarianceAndItsSumsAreInF64) {
  const program::Initializer zero{program::Initializer::Kind::kConstant, 0}, one{program::Initializer::Kind::kConstant, 1};
  for (const auto& [x, channels] : {std::pair(Shape{6, 4, 5, 5}, 4), {Shape{6, 10}, 10}}) {
    for (const auto& [per_group, groups] : {std::pair(0, 1), {2, 3}, {1, 6}}) {
      const LayerStages of = StagesOf(BatchNorm{.samples_per_group = per_group}, {x});
      ASSERT_EQ(of.state.size(), 2u);
      EXPECT_EQ(of.state[0].name, "running_mean");
      EXPECT_EQ(of.state[1].name, "running_var");
      EXPECT_EQ(of.state[0].initializer, zero);
      EXPECT_EQ(of.state[1].initializer, one);
      for (const ParameterSpec& state : of.state) EXPECT_EQ(state.shape, Shape{channels});
      std::vector<std::string> names;
      std::vector<Shape> shapes;
      for (const InnerSpec& inner : of.inner) {
        names.push_back(inner.name);
        shapes.push_back(inner.shape);
        EXPECT_EQ(inner.dtype, program::DType::kF64) << inner.name;
      }
      EXPECT_THAT(names, ElementsAre("sums", "gradient_sums", "recalled", "totals"));
      const Shape of_groups = {groups, 2, channels}, of_all = {1, 2, channels};
      EXPECT_THAT(shapes, ElementsAre(of_groups, of_groups, of_all, of_all)) << per_group;
    }
  }
}

TEST(Stages, ABatchNormReadsMastersWhereverItReadsParameters) {
  const auto reads_parameters = [](const Stage& stage) {
    return std::any_of(stage.reads.begin(), stage.reads.end(),
                       [](Slot slot) { return slot.kind == Slot::Kind::kParameter; });
  };
  const Layer norm = BatchNorm{};
  for (bool train : {true, false}) {
    for (const Stage& stage : Stages(norm, ShapesOf(norm, kImage), {.train = train}).stages) {
      EXPECT_EQ(stage.reads_masters, reads_parameters(stage)) << train;
    }
  }
  for (const Stage& stage : StagesOf(Conv2d{.out_channels = 8}, kImage).stages) EXPECT_FALSE(stage.reads_masters);
}

// Three numbers of each sample and position, of the type of parameters.
TEST(Stages, ALayerNormKeepsItsMomentsAndReadsMasters) {
  for (const auto& [x, moments] : {std::pair(kImage[0], Shape{2, 3, 5, 5}), {kRows[0], Shape{6, 3}}}) {
    const LayerStages stages = StagesOf(LayerNorm{}, {x});
    EXPECT_THAT(Words(stages), ElementsAre("forward: x0 p0 p1 -> y v0", "backward: x0 dy v0 p0 -> dp0 dp1 dx0"));
    ASSERT_EQ(stages.inner.size(), 1u);
    EXPECT_EQ(stages.inner[0].name, "moments");
    EXPECT_EQ(stages.inner[0].shape, moments);
    EXPECT_TRUE(stages.inner[0].in_master_type && stages.inner[0].required);
    EXPECT_THAT(stages.state, IsEmpty()) << "evaluation needs nothing of training";
    for (const Stage& stage : stages.stages) EXPECT_TRUE(stage.reads_masters);
  }
}

TEST(Stages, AnAddsGradientIsDyItselfAndAnAddNarrowsOfItsWideInputToo) {
  const LayerStages add = StagesOf(Add{}, {kRows[0], kRows[0]}), narrow = StagesOf(AddNarrow{}, {kRows[0], Shape{6, 4}});
  EXPECT_THAT(Words(add), ElementsAre("forward: x0 x1 -> y", "backward: dy -> dx0 dx1"));
  EXPECT_THAT(Words(narrow), ElementsAre("forward: x0 x1 -> y", "backward: dy -> dx0", "backward: dy -> dx1"));
  EXPECT_FALSE(add.stages[1].emit);
  EXPECT_FALSE(narrow.stages[1].emit);
  EXPECT_TRUE(narrow.stages[2].emit);
}

// What lowering fuses and moves, by layer.
TEST(Stages, ABatchNormTakesASummandAndAMaskAndAnAddIsASum) {
  const auto flags = [](const LayerStages& stages) {
    std::vector<std::string> lines;
    for (const Stage& stage : stages.stages) {
      lines.push_back(stage.Means<Addition>() ? "adds" : "");
      if (stage.accepts.addend) lines.back() += "addend";
      if (stage.accepts.mask) lines.back() += "mask";
      if (stage.accepts.recalled_mask) lines.back() += "recalls";
      if (stage.Means<ChannelScaling>()) lines.back() += "folds";
      if (stage.accepts.folded) lines.back() += "folded";
    }
    return lines;
  };
  EXPECT_THAT(flags(StagesOf(BatchNorm{}, kImage)), ElementsAre("", "addend", "", "maskrecalls", "recalls"));
  EXPECT_THAT(flags(Stages(Layer{BatchNorm{}}, ShapesOf(BatchNorm{}, kImage), {.train = false})),
              ElementsAre("addendfolds"));
  EXPECT_THAT(flags(StagesOf(Add{}, {kImage[0], kImage[0]})), ElementsAre("adds", ""));
  EXPECT_THAT(flags(StagesOf(AddNarrow{}, {kImage[0], kImage[0]})), ElementsAre("", "", ""));
  EXPECT_THAT(flags(StagesOf(Conv2d{.out_channels = 8}, kImage)), ElementsAre("folded", "", ""));
  EXPECT_THAT(flags(StagesOf(FullyConnected{.out_features = 7}, kRows)), ElementsAre("folded", "", ""));
  EXPECT_THAT(flags(StagesOf(Relu{}, kImage)), ElementsAre("", ""));
}

TEST(Stages, ProductsAndNormalisationsTakeAnEpilogueAndAReluIsOneThatMasks) {
  const auto flags = [](const LayerStages& stages) {
    std::vector<std::string> lines;
    for (const Stage& stage : stages.stages) {
      lines.push_back(stage.accepts.epilogue ? "takes" : "");
      const auto* activation = std::get_if<program::Activation>(&stage.meaning);
      if (activation != nullptr) lines.back() += *activation == program::Activation::kRelu ? "relu" : "gelu";
      if (stage.Means<Masking>()) lines.back() += "masks";
      if (stage.Means<Routing>()) lines.back() += "routes";
    }
    return lines;
  };
  EXPECT_THAT(flags(StagesOf(Conv2d{.out_channels = 8}, kImage)), ElementsAre("takes", "", ""));
  EXPECT_THAT(flags(StagesOf(FullyConnected{.out_features = 7}, kRows)), ElementsAre("takes", "", ""));
  EXPECT_THAT(flags(StagesOf(BatchNorm{}, kImage)), ElementsAre("", "takes", "", "", ""));
  EXPECT_THAT(flags(Stages(Layer{BatchNorm{}}, ShapesOf(BatchNorm{}, kImage), {.train = false})), ElementsAre("takes"));
  EXPECT_THAT(flags(StagesOf(AddNarrow{}, {kImage[0], kImage[0]})), ElementsAre("", "", ""));
  EXPECT_THAT(flags(StagesOf(Relu{}, kImage)), ElementsAre("relu", "masks"));
  EXPECT_THAT(flags(StagesOf(MaxPool{}, kImage)), ElementsAre("", "routes"));
  for (const Layer& layer :
       {Layer{Gelu{}}, Layer{AvgPool{}}, Layer{Lrn{}}, Layer{LayerNorm{}}, Layer{Dropout{}}, Layer{Flatten{}}}) {
    EXPECT_THAT(flags(StagesOf(layer, kImage)), ElementsAre("", "")) << TypeName(layer);
  }
  for (const Layer& layer : {Layer{Add{}}, Layer{Concat{}}}) {
    EXPECT_THAT(flags(StagesOf(layer, {kImage[0], kImage[0]})), ElementsAre("", "")) << TypeName(layer);
  }
  EXPECT_THAT(flags(StagesOf(SoftmaxCrossEntropy{}, kRows)), ElementsAre("", ""));
}

// The op that adds a bias knows no activation.
TEST(Stages, AStageThatAddsABiasTakesNoEpilogue) {
  EXPECT_FALSE(StagesOf(FullyConnected{.out_features = 7}, kRows, {Strategy::kRow}).stages[1].accepts.epilogue);
}

struct StagesCase {
  std::string name;
  Layer layer;
  std::vector<Shape> inputs;
  std::vector<Strategy> strategies{};
};

// What lowering relies on, of every layer.
class EveryLayersStages : public ::testing::TestWithParam<StagesCase> {
 protected:
  LayerStages stages() const { return StagesOf(GetParam().layer, GetParam().inputs, GetParam().strategies); }
  // Those that BatchNorm has for evaluation, or for the other way to cut its batch, no stage makes.
  static bool IsRead(const LayerStages& stages, Slot slot) {
    return std::any_of(stages.stages.begin(), stages.stages.end(), [slot](const Stage& stage) {
      return std::find(stage.reads.begin(), stage.reads.end(), slot) != stage.reads.end();
    });
  }
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
  size_t inner = 0;
  for (int v = 0; v < static_cast<int>(of.inner.size()); ++v) {
    const bool is_made = of.inner[v].required || IsRead(of, Inner(v));
    EXPECT_EQ(WritersOf(of, Inner(v), Pass::kForward) + WritersOf(of, Inner(v), Pass::kBackward), is_made ? 1 : 0) << v;
    EXPECT_TRUE(is_made || std::holds_alternative<BatchNorm>(GetParam().layer)) << v;
    inner += is_made;
  }
  for (int k = 0; k < static_cast<int>(GetParam().inputs.size()); ++k) {
    EXPECT_EQ(WritersOf(of, D(X(k)), Pass::kBackward), 1) << "input " << k;
  }
  const LayerShapes shapes = ShapesOf(GetParam().layer, GetParam().inputs, GetParam().strategies);
  for (int p = 0; p < static_cast<int>(shapes.parameters.size()); ++p) {
    EXPECT_EQ(WritersOf(of, D(Parameter(p)), Pass::kBackward), 1) << "parameter " << p;
  }
  size_t written = 0;
  for (const Stage& stage : of.stages) written += stage.writes.size();
  EXPECT_EQ(written, 1 + inner + GetParam().inputs.size() + shapes.parameters.size());
}

TEST_P(EveryLayersStages, ReadWhatIsMadeBefore) {
  std::vector<Slot> made;
  for (const Stage& stage : stages().stages) {
    for (Slot slot : stage.reads) {
      const bool is_there = slot.kind == Slot::Kind::kInput || slot.kind == Slot::Kind::kParameter ||
                            slot.kind == Slot::Kind::kState || slot == D(Y());
      EXPECT_TRUE(is_there || std::find(made.begin(), made.end(), slot) != made.end()) << Words(slot);
      EXPECT_TRUE(stage.pass == Pass::kBackward || !slot.gradient) << Words(slot);
    }
    made.insert(made.end(), stage.writes.begin(), stage.writes.end());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, EveryLayersStages,
    ::testing::Values(StagesCase{"conv", Conv2d{.out_channels = 8, .kernel = 3}, kImage},
                      StagesCase{"conv_by_rows", Conv2d{.out_channels = 8, .kernel = 3}, kImage, {Strategy::kRow}},
                      StagesCase{"conv_without_bias", Conv2d{.out_channels = 8, .kernel = 3, .bias = false}, kImage},
                      StagesCase{"fc", FullyConnected{.out_features = 7}, kRows},
                      StagesCase{"fc_by_rows", FullyConnected{.out_features = 7}, kRows, {Strategy::kRow}},
                      StagesCase{"concat", Concat{}, {kImage[0], kImage[0], kImage[0]}},  //
                      StagesCase{"relu", Relu{}, kImage}, StagesCase{"gelu", Gelu{}, kImage},
                      StagesCase{"max_pool", MaxPool{}, kImage}, StagesCase{"avg_pool", AvgPool{}, kImage},
                      StagesCase{"lrn", Lrn{}, kImage}, StagesCase{"dropout", Dropout{}, kImage},
                      StagesCase{"flatten", Flatten{}, kImage}, StagesCase{"add", Add{}, {kRows[0], kRows[0]}},
                      StagesCase{"add_narrow", AddNarrow{}, {kImage[0], {2, 3, 5, 5}}},
                      StagesCase{"batch_norm", BatchNorm{}, kImage},
                      StagesCase{"batch_norm_of_groups", BatchNorm{.samples_per_group = 2}, kRows},
                      StagesCase{"layer_norm", LayerNorm{}, kImage},
                      StagesCase{"layer_norm_of_features", LayerNorm{}, kRows},
                      StagesCase{"loss", SoftmaxCrossEntropy{}, kRows}),
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

// A sum and a concatenation ask for each of their inputs, of which a file may name a thousand.
TEST(StageShard, FindsAnInputAmongManyAsFastAsAmongFew) {
  const auto seconds = [](int count) {
    StageShard shard;
    for (int k = 0; k < count; ++k) shard.Put(X(k), {program::BufferId{k}, {2, 4}});
    return ProcessorSeconds([&] {
      for (int k = 0; k < 200'000; ++k) EXPECT_EQ(shard[X(k % count)].buffer.value, k % count);
    });
  };
  const double few = seconds(4), many = seconds(4000);
  EXPECT_LT(many, 8 * few + 0.01);
}

}  // namespace
}  // namespace colonnade::layers
