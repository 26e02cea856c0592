// Legal shardings of every layer on axes of 2, 3 and 4 positions: local extents multiply back to global ones, shards fit
// together, gradients are the duals of what they are gradients of, and what is not legal says why.
// One file for all layers, so that one sees which has no test.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/common_shardings.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"

namespace colonnade::layers {
namespace {

using program::Shape;
using ::testing::HasSubstr;
using enum Strategy;

const std::vector<int64_t> kAll = {2, 3, 4};

struct ShardCase {
  std::string name;
  Layer layer;
  std::vector<Shape> inputs;
  std::map<Strategy, std::vector<int64_t>> legal;  // on how many positions, of 2, 3 and 4
};

class LegalShardings : public ::testing::TestWithParam<ShardCase> {
 protected:
  const Layer& layer() const { return GetParam().layer; }

  bool IsLegal(Strategy strategy, int64_t size) const {
    const auto it = GetParam().legal.find(strategy);
    return it != GetParam().legal.end() && std::find(it->second.begin(), it->second.end(), size) != it->second.end();
  }

  // Calls `check` with the extents, the sharding and the axis size of every way that is legal.
  template <class F>
  void ForEachLegal(F check) const {
    for (Strategy strategy : kStrategies) {
      const LayerShapes global = ShapesOf(layer(), GetParam().inputs, {strategy});
      for (int64_t size : kAll) {
        if (!IsLegal(strategy, size)) continue;
        SCOPED_TRACE(absl::StrCat(Name(strategy), " over ", size));
        absl::StatusOr<Sharding> sharding = layers::Shard(layer(), global, strategy, size);
        ASSERT_TRUE(sharding.ok()) << sharding.status();
        check(global, *sharding, strategy, size);
      }
    }
  }
};

Shape Cut(const Placement& placement, int64_t axis_size, Shape shape) {
  if (placement.kind == Placement::Kind::kSplit) {
    shape[placement.dim] /= axis_size;
  } else if (placement.groups > 1) {
    shape[1] /= placement.groups;
  }
  return shape;
}

// The extents that are left on one position.
LayerShapes Cut(const Sharding& sharding, int64_t axis_size, LayerShapes local) {
  for (size_t i = 0; i < local.inputs.size(); ++i) local.inputs[i] = Cut(sharding.inputs[i], axis_size, local.inputs[i]);
  for (size_t i = 0; i < local.parameters.size(); ++i) {
    local.parameters[i] = Cut(sharding.parameters[i], axis_size, local.parameters[i]);
  }
  for (size_t i = 0; i < local.state.size(); ++i) local.state[i] = Cut(sharding.state[i], axis_size, local.state[i]);
  for (size_t i = 0; i < local.inner.size(); ++i) local.inner[i] = Cut(sharding.inner[i].made, axis_size, local.inner[i]);
  local.output = Cut(sharding.output, axis_size, local.output);
  return local;
}

void ExpectPartsMultiplyBack(const Placement& placement, int64_t axis_size, const Shape& shape) {
  const int64_t parts = placement.kind == Placement::Kind::kSplit ? axis_size : placement.groups;
  ASSERT_LT(placement.dim, static_cast<int>(shape.size()));
  EXPECT_EQ(axis_size % parts, 0);
  EXPECT_EQ(parts * program::ElementCount(Cut(placement, axis_size, shape)), program::ElementCount(shape))
      << ToString(placement) << " of " << program::ToString(shape);
}

TEST_P(LegalShardings, AreThoseOfTheTableAndNoOther) {
  for (Strategy strategy : kStrategies) {
    const LayerShapes global = ShapesOf(layer(), GetParam().inputs, {strategy});
    for (int64_t size : kAll) {
      const absl::Status status = layers::Shard(layer(), global, strategy, size).status();
      EXPECT_EQ(status.ok(), IsLegal(strategy, size)) << Name(strategy) << " over " << size << ": " << status;
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("strategy ", Name(strategy))));
    }
  }
}

TEST_P(LegalShardings, LocalExtentsMultiplyBackToGlobalOnes) {
  ForEachLegal([this](const LayerShapes& global, const Sharding& sharding, Strategy, int64_t size) {
    ASSERT_EQ(sharding.inputs.size(), global.inputs.size());
    ASSERT_EQ(sharding.input_gradients.size(), global.inputs.size());
    ASSERT_EQ(sharding.parameters.size(), global.parameters.size());
    ASSERT_EQ(sharding.parameter_gradients.size(), global.parameters.size());
    ASSERT_EQ(sharding.state.size(), global.state.size());
    ASSERT_EQ(sharding.inner.size(), global.inner.size());
    for (size_t i = 0; i < global.inputs.size(); ++i) {
      ExpectPartsMultiplyBack(sharding.inputs[i], size, global.inputs[i]);
      ExpectPartsMultiplyBack(sharding.input_gradients[i], size, global.inputs[i]);
    }
    for (size_t i = 0; i < global.parameters.size(); ++i) {
      ExpectPartsMultiplyBack(sharding.parameters[i], size, global.parameters[i]);
      ExpectPartsMultiplyBack(sharding.parameter_gradients[i], size, global.parameters[i]);
    }
    for (size_t i = 0; i < global.state.size(); ++i) ExpectPartsMultiplyBack(sharding.state[i], size, global.state[i]);
    for (size_t i = 0; i < global.inner.size(); ++i) {
      ExpectPartsMultiplyBack(sharding.inner[i].made, size, global.inner[i]);
      ExpectPartsMultiplyBack(sharding.inner[i].needed, size, global.inner[i]);
    }
    ExpectPartsMultiplyBack(sharding.output, size, global.output);
    if (!IsLoss(layer())) ExpectPartsMultiplyBack(sharding.output_gradient, size, global.output);
  });
}

// What one position holds is a layer of the same kind.
TEST_P(LegalShardings, ShardsFitTogether) {
  ForEachLegal([this](const LayerShapes& global, const Sharding& sharding, Strategy, int64_t size) {
    const LayerShapes local = Cut(sharding, size, global);
    if (std::holds_alternative<Conv2d>(layer())) {
      const Shape &x = local.inputs[0], &w = local.parameters[0];
      EXPECT_EQ(x[1] % w[1], 0);
      EXPECT_EQ(w[0] % (x[1] / w[1]), 0) << "filters in " << x[1] / w[1] << " local groups";
      EXPECT_EQ(local.output, (Shape{x[0], w[0], global.output[2], global.output[3]}));
    } else if (std::holds_alternative<FullyConnected>(layer())) {
      EXPECT_EQ(local.parameters[0], (Shape{local.output[1], local.inputs[0][1]}));
    } else if (std::holds_alternative<SoftmaxCrossEntropy>(layer())) {
      EXPECT_EQ(local.inputs[0][1], global.inputs[0][1]);
    } else if (!std::holds_alternative<Lrn>(layer())) {  // its groups are the whole layer's
      EXPECT_EQ(local.output, ShapesOf(layer(), local.inputs).output);
    }
    if (local.parameters.size() == 2) {
      EXPECT_EQ(local.parameters[1], (Shape{local.parameters[0][0]}));
    }
  });
}

// An inner tensor lies as what the layer makes of the same elements; only a product by rows makes a sum of it. (Those of
// BatchNorm are sums of their own, whose placements tests below tell.)
TEST_P(LegalShardings, InnerTensorsLieAsTheOutputDoes) {
  if (std::holds_alternative<BatchNorm>(layer())) return;
  ForEachLegal([this](const LayerShapes& global, const Sharding& sharding, Strategy strategy, int64_t) {
    for (const InnerPlacement& inner : sharding.inner) {
      if (MultipliesWeights(layer())) {
        EXPECT_EQ(strategy, kRow);
        EXPECT_EQ(inner.made, Placement::Partial());
        EXPECT_EQ(inner.needed, sharding.output);
        continue;
      }
      EXPECT_EQ(inner.made, inner.needed);
      EXPECT_EQ(inner.made, IsLoss(layer()) ? sharding.inputs[0] : sharding.output);
    }
    const bool has_inner = std::holds_alternative<MaxPool>(layer()) || std::holds_alternative<LayerNorm>(layer()) ||
                           IsLoss(layer()) || (strategy == kRow && global.parameters.size() == 2);
    EXPECT_EQ(sharding.inner.size(), has_inner ? 1u : 0u);
  });
}

TEST_P(LegalShardings, GradientsAreTheDuals) {
  ForEachLegal([](const LayerShapes&, const Sharding& sharding, Strategy strategy, int64_t) {
    using Kind = Placement::Kind;
    if (sharding.output.kind == Kind::kPartial) {
      EXPECT_NE(sharding.output_gradient.kind, Kind::kPartial);
    } else {
      EXPECT_EQ(sharding.output_gradient, sharding.output);
    }
    for (size_t i = 0; i < sharding.inputs.size(); ++i) {
      const Placement &x = sharding.inputs[i], &dx = sharding.input_gradients[i];
      EXPECT_EQ(dx.groups, x.groups);
      // A sum is left to be done where every position reads all of x and makes a part of y alone.
      const bool sum = x.kind == Kind::kReplicated && sharding.output.kind == Kind::kSplit;
      EXPECT_EQ(dx.kind, sum ? Kind::kPartial : x.kind);
      EXPECT_EQ(dx.dim, x.dim);
    }
    for (size_t i = 0; i < sharding.parameters.size(); ++i) {
      const Placement expected = strategy == kBatch ? Placement::Partial() : sharding.parameters[i];
      EXPECT_EQ(sharding.parameter_gradients[i], expected);
    }
  });
}

std::vector<ShardCase> Cases() {
  const Shape image = {12, 12, 6, 6}, flat = {12, 24};
  const std::map<Strategy, std::vector<int64_t>> whole_samples = {{kReplicate, kAll}, {kBatch, kAll}};
  auto and_group = [&](std::vector<int64_t> sizes) {
    auto legal = whole_samples;
    legal[kGroup] = std::move(sizes);
    return legal;
  };
  return {
      {"conv",
       Conv2d{.out_channels = 24, .kernel = 3},
       {image},
       {{kReplicate, kAll}, {kBatch, kAll}, {kColumn, kAll}, {kRow, kAll}}},
      {"conv_without_bias",
       Conv2d{.out_channels = 24, .kernel = 3, .bias = false},
       {image},
       {{kReplicate, kAll}, {kBatch, kAll}, {kColumn, kAll}, {kRow, kAll}}},
      {"conv_of_8_to_10_channels",
       Conv2d{.out_channels = 10, .bias = false},
       {{9, 8, 6, 6}},
       {{kReplicate, kAll}, {kBatch, {3}}, {kColumn, {2}}, {kRow, {2, 4}}}},
      {"conv_of_2_groups", Conv2d{.out_channels = 24, .kernel = 3, .groups = 2}, {image}, and_group({2, 4})},
      {"conv_of_2_groups_to_6_channels", Conv2d{.out_channels = 6, .groups = 2}, {image}, and_group({2})},
      {"conv_of_3_groups", Conv2d{.out_channels = 24, .groups = 3, .bias = false}, {image}, and_group({3})},
      {"conv_of_4_groups", Conv2d{.out_channels = 24, .groups = 4}, {image}, and_group({2, 4})},
      {"conv_of_12_groups", Conv2d{.out_channels = 12, .groups = 12}, {image}, and_group(kAll)},
      {"fc",
       FullyConnected{.out_features = 12},
       {flat},
       {{kReplicate, kAll}, {kBatch, kAll}, {kColumn, kAll}, {kRow, kAll}}},
      {"fc_without_bias",
       FullyConnected{.out_features = 12, .bias = false},
       {flat},
       {{kReplicate, kAll}, {kBatch, kAll}, {kColumn, kAll}, {kRow, kAll}}},
      {"fc_of_33_to_10",
       FullyConnected{.out_features = 10, .bias = false},
       {{1, 33}},
       {{kReplicate, kAll}, {kColumn, {2}}, {kRow, {3}}}},
      {"relu", Relu{}, {image}, and_group(kAll)},
      {"gelu", Gelu{}, {image}, and_group(kAll)},
      {"relu_of_31_features", Relu{}, {{12, 31}}, whole_samples},
      {"relu_of_10_features", Relu{}, {{12, 10}}, and_group({2})},
      {"max_pool", MaxPool{.kernel = 2}, {image}, and_group(kAll)},
      {"avg_pool", AvgPool{.kernel = 3, .stride = 2, .pad = 1}, {image}, and_group(kAll)},
      {"lrn", Lrn{}, {image}, whole_samples},
      {"lrn_of_2_groups", Lrn{.groups = 2}, {image}, and_group({2, 4})},
      {"lrn_of_3_groups", Lrn{.groups = 3}, {image}, and_group({3})},
      {"lrn_of_4_groups", Lrn{.groups = 4}, {image}, and_group({2, 4})},
      {"dropout", Dropout{}, {flat}, and_group(kAll)},
      {"flatten", Flatten{}, {image}, and_group(kAll)},
      // 8 channels of 6x6 make 288 features, which 3 divides; but a shard of features would not be one of channels.
      {"flatten_of_8_channels", Flatten{}, {{12, 8, 6, 6}}, and_group({2, 4})},
      {"add", Add{}, {image, image, image}, and_group(kAll)},
      {"concat", Concat{}, {image, image}, and_group(kAll)},
      {"concat_of_6_and_4_channels", Concat{}, {{12, 6, 6, 6}, {12, 4, 6, 6}}, and_group({2})},
      {"add_narrow", AddNarrow{}, {image, {12, 4, 6, 6}}, whole_samples},
      {"batch_norm", BatchNorm{}, {image}, and_group(kAll)},
      {"batch_norm_of_features", BatchNorm{}, {flat}, and_group(kAll)},
      {"batch_norm_of_10_channels", BatchNorm{}, {{9, 10, 6, 6}}, {{kReplicate, kAll}, {kBatch, {3}}, {kGroup, {2}}}},
      // 12 samples are 6 groups of 2, or 4 groups of 3, or one group.
      {"batch_norm_over_2_samples",
       BatchNorm{.samples_per_group = 2},
       {image},
       {{kReplicate, kAll}, {kBatch, {2, 3}}, {kGroup, kAll}}},
      {"batch_norm_over_3_samples",
       BatchNorm{.samples_per_group = 3},
       {image},
       {{kReplicate, kAll}, {kBatch, {2, 4}}, {kGroup, kAll}}},
      {"batch_norm_over_12_samples", BatchNorm{.samples_per_group = 12}, {image}, {{kReplicate, kAll}, {kGroup, kAll}}},
      {"layer_norm", LayerNorm{}, {image}, whole_samples},
      {"layer_norm_of_features", LayerNorm{}, {flat}, whole_samples},
      {"loss", SoftmaxCrossEntropy{}, {flat}, whole_samples},
  };
}

INSTANTIATE_TEST_SUITE_P(Layers, LegalShardings, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

std::string Words(const std::vector<Placement>& placements) {
  std::string words;
  for (const Placement& p : placements) absl::StrAppend(&words, " ", ToString(p));
  return words;
}

// "partial → replicated", or one placement where the two are the same.
std::string Words(const InnerPlacement& inner) {
  const std::string made = ToString(inner.made);
  return inner.made == inner.needed ? made : absl::StrCat(made, " → ", ToString(inner.needed));
}

// "x … w … y … dy … dx … dw … state … inner …", or the message of the error.
std::string Words(const Layer& layer, const LayerShapes& local, Strategy strategy, int64_t size) {
  absl::StatusOr<Sharding> s = layers::Shard(layer, local, strategy, size);
  if (!s.ok()) return std::string(s.status().message());
  std::string words = absl::StrCat("x", Words(s->inputs));
  if (!s->parameters.empty()) absl::StrAppend(&words, " w", Words(s->parameters));
  absl::StrAppend(&words, " y ", ToString(s->output), " dy ", ToString(s->output_gradient), " dx",
                  Words(s->input_gradients));
  if (!s->parameters.empty()) absl::StrAppend(&words, " dw", Words(s->parameter_gradients));
  if (!s->state.empty()) absl::StrAppend(&words, " state", Words(s->state));
  for (const InnerPlacement& inner : s->inner) absl::StrAppend(&words, " inner ", Words(inner));
  return words;
}

TEST(Shard, PlacementsOfAConvolution) {
  const std::vector<Shape> x = {{8, 8, 6, 6}};
  const Layer dense = Conv2d{.out_channels = 16}, without_bias = Conv2d{.out_channels = 16, .bias = false},
              grouped = Conv2d{.out_channels = 16, .groups = 2};
  EXPECT_EQ(Words(dense, ShapesOf(dense, x), kReplicate, 2),
            "x replicated w replicated replicated y replicated dy replicated dx replicated dw replicated replicated");
  EXPECT_EQ(Words(dense, ShapesOf(dense, x), kBatch, 2),
            "x split(0) w replicated replicated y split(0) dy split(0) dx split(0) dw partial partial");
  EXPECT_EQ(Words(dense, ShapesOf(dense, x), kColumn, 2),
            "x replicated w split(0) split(0) y split(1) dy split(1) dx partial dw split(0) split(0)");
  EXPECT_EQ(Words(without_bias, ShapesOf(without_bias, x), kRow, 2),
            "x split(1) w split(1) y partial dy replicated dx split(1) dw split(1)");
  EXPECT_EQ(Words(grouped, ShapesOf(grouped, x), kGroup, 2),
            "x split(1) w split(0) split(0) y split(1) dy split(1) dx split(1) dw split(0) split(0)");
  EXPECT_EQ(Words(grouped, ShapesOf(grouped, x), kGroup, 4),
            "x replicated/2 w split(0) split(0) y split(1) dy split(1) dx partial/2 dw split(0) split(0)");
}

TEST(Shard, PlacementsOfAFullyConnectedLayer) {
  const Layer with = FullyConnected{.out_features = 12}, without = FullyConnected{.out_features = 12, .bias = false};
  EXPECT_EQ(Words(with, ShapesOf(with, {{8, 16}}), kColumn, 4),
            "x replicated w split(0) split(0) y split(1) dy split(1) dx partial dw split(0) split(0)");
  EXPECT_EQ(Words(without, ShapesOf(without, {{8, 16}}), kRow, 4),
            "x split(1) w split(1) y partial dy replicated dx split(1) dw split(1)");
}

// The bias is added to the whole sum, which another axis may have cut.
TEST(Shard, ARowProductsSumIsMadeInSummandsAndNeededWhole) {
  const std::vector<Shape> image = {{8, 8, 6, 6}};
  const Layer fc = FullyConnected{.out_features = 12}, conv = Conv2d{.out_channels = 16},
              grouped = Conv2d{.out_channels = 16, .groups = 2};
  const LayerShapes of_fc = ShapesOf(fc, {{8, 16}}, {kRow}), of_conv = ShapesOf(conv, image, {kRow}),
                    of_grouped = ShapesOf(grouped, image, {kRow});
  for (const std::string& words : {Words(fc, of_fc, kRow, 4), Words(conv, of_conv, kRow, 2)}) {
    EXPECT_EQ(words,
              "x split(1) w split(1) replicated y replicated dy replicated dx split(1) dw split(1) replicated "
              "inner partial → replicated");
  }
  EXPECT_THAT(Words(fc, of_fc, kReplicate, 2), HasSubstr("inner replicated"));
  EXPECT_THAT(Words(fc, of_fc, kBatch, 2), HasSubstr("inner split(0)"));
  EXPECT_THAT(Words(fc, of_fc, kColumn, 2), HasSubstr("inner split(1)"));
  EXPECT_THAT(Words(conv, of_conv, kColumn, 2), HasSubstr("inner split(1)"));
  for (int64_t size : {2, 4}) EXPECT_THAT(Words(grouped, of_grouped, kGroup, size), HasSubstr("inner split(1)")) << size;
}

TEST(Shard, PlacementsOfLayersWithoutParameters) {
  const std::vector<Shape> x = {{8, 8, 6, 6}};
  const std::string by_channels = "x split(1) y split(1) dy split(1) dx split(1)";
  for (const Layer& layer :
       {Layer{Relu{}}, Layer{Gelu{}}, Layer{AvgPool{}}, Layer{Dropout{}}, Layer{Flatten{}}, Layer{Lrn{.groups = 4}}}) {
    EXPECT_EQ(Words(layer, ShapesOf(layer, x), kGroup, 4), by_channels) << TypeName(layer);
  }
  EXPECT_EQ(Words(Add{}, ShapesOf(Add{}, {x[0], x[0]}), kGroup, 4),
            "x split(1) split(1) y split(1) dy split(1) dx split(1) split(1)");
  EXPECT_EQ(Words(MaxPool{}, ShapesOf(MaxPool{}, x), kGroup, 4), by_channels + " inner split(1)");
  const Layer lrn = Lrn{.groups = 2}, loss = SoftmaxCrossEntropy{};
  EXPECT_EQ(Words(lrn, ShapesOf(lrn, x), kGroup, 4), "x replicated/2 y replicated/2 dy replicated/2 dx replicated/2");
  const std::string words = Words(loss, ShapesOf(loss, {{8, 10}}), kBatch, 4);
  EXPECT_THAT(words, HasSubstr("x split(0) split(0) replicated y partial")) << "logits, labels and their count";
  EXPECT_THAT(words, HasSubstr("dx split(0)"));
  EXPECT_THAT(words, HasSubstr("inner split(0)"));
}

const std::string kNormByBatch =
    "x split(0) w replicated replicated y split(0) dy split(0) dx split(0) dw partial partial "
    "state replicated replicated inner ";

// Inner tensors of BatchNorm are, in this order, sums, gradient_sums, recalled and totals.
TEST(Shard, ABatchNormOverTheGlobalBatchAddsItsSumsOverDevices) {
  const Layer norm = BatchNorm{};
  for (const Shape& x : {Shape{8, 8, 6, 6}, Shape{8, 8}}) {
    EXPECT_EQ(Words(norm, ShapesOf(norm, {x}), kBatch, 2),
              kNormByBatch + "partial → replicated inner partial → replicated inner replicated inner replicated");
  }
}

// Only what evaluation reads is of all groups.
TEST(Shard, ABatchNormOverGroupsOfSamplesKeepsEachGroupOnItsDevice) {
  const Layer norm = BatchNorm{.samples_per_group = 2};
  for (int64_t size : {2, 4}) {
    EXPECT_EQ(Words(norm, ShapesOf(norm, {{8, 8, 6, 6}}), kBatch, size),
              kNormByBatch + "split(0) inner split(0) inner replicated inner partial → replicated");
  }
}

// Channels lie along dimension 2 of sums.
TEST(Shard, ABatchNormByChannelsCutsParametersStatisticsAndSumsAlike) {
  for (const Layer& norm : {Layer{BatchNorm{}}, Layer{BatchNorm{.samples_per_group = 2}}}) {
    EXPECT_EQ(Words(norm, ShapesOf(norm, {{8, 8, 6, 6}}), kGroup, 4),
              "x split(1) w split(0) split(0) y split(1) dy split(1) dx split(1) dw split(0) split(0) "
              "state split(0) split(0) inner split(2) inner split(2) inner split(2) inner split(2)");
  }
}

TEST(Shard, AReplicatedBatchNormHasAllOfItsTensorsWhole) {
  const Layer norm = BatchNorm{.samples_per_group = 2};
  EXPECT_EQ(Words(norm, ShapesOf(norm, {{8, 8, 6, 6}}), kReplicate, 4),
            "x replicated w replicated replicated y replicated dy replicated dx replicated dw replicated replicated "
            "state replicated replicated inner replicated inner replicated inner replicated inner replicated");
}

TEST(Shard, ABatchNormIsRefusedWithItsNameOrItsGroups) {
  const Layer norm = BatchNorm{.samples_per_group = 3}, large = BatchNorm{.samples_per_group = 12};
  const LayerShapes shapes = ShapesOf(norm, {{12, 8, 6, 6}});
  for (Strategy strategy : {kColumn, kRow}) {
    EXPECT_EQ(Words(norm, shapes, strategy, 2), absl::StrCat("BatchNorm cannot be spread by strategy ", Name(strategy),
                                                             ": expected replicate, batch or group"));
  }
  EXPECT_EQ(Words(norm, shapes, kBatch, 3),
            "strategy batch over 3 positions needs groups of 3 samples divisible by 3, found 4; nearest that work: 3 or 6 "
            "groups of 3 samples, or 1, 2, 4 positions");
  EXPECT_EQ(Words(large, ShapesOf(large, {{12, 8, 6, 6}}), kBatch, 2),
            "strategy batch over 2 positions needs groups of 12 samples divisible by 2, found 1; nearest that work: 2 "
            "groups of 12 samples, or 1 position");
  EXPECT_THAT(Words(norm, shapes, kBatch, 5), HasSubstr("needs batch divisible by 5, found 12"));
  EXPECT_THAT(Words(norm, shapes, kGroup, 3), HasSubstr("needs channels divisible by 3, found 8"));
}

TEST(Shard, ALayerNormOverTheBatchAddsTheGradientsOfItsParametersAlone) {
  const Layer norm = LayerNorm{};
  for (const Shape& x : {Shape{8, 8, 6, 6}, Shape{8, 8}}) {
    EXPECT_EQ(Words(norm, ShapesOf(norm, {x}), kBatch, 4),
              "x split(0) w replicated replicated y split(0) dy split(0) dx split(0) dw partial partial inner split(0)");
    EXPECT_EQ(Words(norm, ShapesOf(norm, {x}), kReplicate, 4),
              "x replicated w replicated replicated y replicated dy replicated dx replicated dw replicated replicated "
              "inner replicated");
  }
}

TEST(Shard, ALayerNormIsNotCutByChannels) {
  const Layer norm = LayerNorm{};
  for (Strategy strategy : {kColumn, kGroup, kRow}) {
    EXPECT_EQ(Words(norm, ShapesOf(norm, {{8, 8, 6, 6}}), strategy, 2),
              absl::StrCat("LayerNorm cannot be spread by strategy ", Name(strategy),
                           ": it normalises over all channels; expected replicate or batch"));
  }
}

TEST(Shard, ASecondAxisCutsTheGroupsOrTheChannelsThatTheFirstHasLeft) {
  const Layer norm = BatchNorm{.samples_per_group = 2};
  const LayerShapes global = ShapesOf(norm, {{12, 8, 6, 6}});  // 6 groups
  const LayerShapes third = Cut(*layers::Shard(norm, global, kBatch, 3), 3, global);
  EXPECT_EQ(third.inner[0], (Shape{2, 2, 8}));
  EXPECT_TRUE(layers::Shard(norm, third, kBatch, 2).ok());
  EXPECT_FALSE(layers::Shard(norm, third, kBatch, 4).ok());
  const LayerShapes quarter = Cut(*layers::Shard(norm, third, kGroup, 4), 4, third);
  EXPECT_EQ(quarter.inner[0], (Shape{2, 2, 2}));
  EXPECT_EQ(quarter.inner[3], (Shape{1, 2, 2}));
  EXPECT_THAT(quarter.state, ::testing::ElementsAre(Shape{2}, Shape{2}));
  EXPECT_TRUE(layers::Shard(norm, quarter, kGroup, 2).ok());
  EXPECT_FALSE(layers::Shard(norm, quarter, kGroup, 4).ok());
}

TEST(Shard, AnAddNarrowHasItsSamplesCutAndNeverItsChannels) {
  const Layer add = AddNarrow{};
  const LayerShapes shapes = ShapesOf(add, {{8, 8, 6, 6}, {8, 4, 6, 6}});
  EXPECT_EQ(Words(add, shapes, kBatch, 4), "x split(0) split(0) y split(0) dy split(0) dx split(0) split(0)");
  EXPECT_EQ(Words(add, shapes, kReplicate, 4),
            "x replicated replicated y replicated dy replicated dx replicated replicated");
  for (Strategy strategy : {kColumn, kGroup, kRow}) {
    EXPECT_EQ(Words(add, shapes, strategy, 2),
              absl::StrCat("AddNarrow cannot be spread by strategy ", Name(strategy), ": expected replicate or batch"));
  }
}

TEST(Shard, ASecondAxisCutsWhatTheFirstHasLeft) {
  const Layer conv = Conv2d{.out_channels = 24, .groups = 4, .bias = false};
  const LayerShapes global = ShapesOf(conv, {{8, 8, 6, 6}});
  const LayerShapes half = Cut(*layers::Shard(conv, global, kGroup, 2), 2, global);
  EXPECT_EQ(half.inputs[0], (Shape{8, 4, 6, 6}));  // two groups are left
  EXPECT_TRUE(layers::Shard(conv, half, kGroup, 2).ok());
  EXPECT_FALSE(layers::Shard(conv, half, kColumn, 2).ok());
  const LayerShapes one = Cut(*layers::Shard(conv, global, kGroup, 4), 4, global);  // one group: a dense convolution
  EXPECT_FALSE(layers::Shard(conv, one, kGroup, 2).ok());
  EXPECT_TRUE(layers::Shard(conv, one, kColumn, 2).ok());
  EXPECT_TRUE(layers::Shard(conv, one, kRow, 2).ok());
  EXPECT_FALSE(layers::Shard(conv, one, kColumn, 4).ok());  // 6 filters are left
  EXPECT_TRUE(layers::Shard(conv, one, kBatch, 8).ok());

  const Layer lrn = Lrn{.groups = 2};
  const LayerShapes whole = ShapesOf(lrn, {{8, 8, 6, 6}});
  for (int64_t size : {2, 4}) {
    const LayerShapes block = Cut(*layers::Shard(lrn, whole, kGroup, size), size, whole);
    EXPECT_EQ(block.inputs[0][1], 4);
    EXPECT_FALSE(layers::Shard(lrn, block, kGroup, 2).ok());
    EXPECT_TRUE(layers::Shard(lrn, block, kBatch, 2).ok());
  }
}

// What is joined of the inputs' parts has a section for each input.
TEST(Shard, PlacementsOfAConcatenation) {
  const std::vector<Shape> x = {{8, 8, 6, 6}, {8, 4, 6, 6}};
  EXPECT_EQ(Words(Concat{}, ShapesOf(Concat{}, x), kGroup, 2),
            "x split(1) split(1) y split(1: 8+4) dy split(1: 8+4) dx split(1) split(1)");
  EXPECT_THAT(Words(Concat{}, ShapesOf(Concat{}, x), kGroup, 8),
              HasSubstr("channels of each input divisible by 8, found 4"));
}

// Section by section where the axis divides each.
TEST(Shard, PlacementsOfWhatKeepsTheChannelsOfAConcatenation) {
  for (const Layer& layer : {Layer{MaxPool{.kernel = 2}}, Layer{AvgPool{.kernel = 2}}, Layer{Relu{}}, Layer{Gelu{}}}) {
    LayerShapes shapes = ShapesOf(layer, {{8, 12, 6, 6}});
    shapes.sections = {8, 4};
    const bool has_argmax = std::holds_alternative<MaxPool>(layer);
    const auto all = [&](const std::string& placement) {
      return absl::StrCat("x ", placement, " y ", placement, " dy ", placement, " dx ", placement,
                          has_argmax ? absl::StrCat(" inner ", placement) : "");
    };
    EXPECT_EQ(Words(layer, shapes, kGroup, 4), all("split(1: 8+4)"));
    EXPECT_EQ(Words(layer, shapes, kGroup, 3), all("split(1)"));
    EXPECT_EQ(Words(layer, shapes, kBatch, 4), all("split(0)"));
  }
}

TEST(Shard, AnIllegalSizeNamesTheNearestThatWork) {
  const Layer conv = Conv2d{.out_channels = 256, .kernel = 3};
  EXPECT_EQ(
      Words(conv, ShapesOf(conv, {{8, 8, 6, 6}}), kColumn, 3),
      "strategy column over 3 positions needs output channels divisible by 3, found 256; nearest that work: 255 or 258 "
      "output channels, or 1, 2, 4, 8, 16, 32, 64 positions");
  EXPECT_EQ(
      CheckDivides(kBatch, 4, "batch", 2).message(),
      "strategy batch over 4 positions needs batch divisible by 4, found 2; nearest that work: 4 batch, or 1, 2 positions");
}

TEST(Shard, AStrategyThatDoesNotFitTheLayerSaysWhichDo) {
  const Layer dense = Conv2d{.out_channels = 16}, grouped = Conv2d{.out_channels = 16, .groups = 2};
  const std::vector<Shape> x = {{8, 8, 6, 6}};
  EXPECT_THAT(Words(dense, ShapesOf(dense, x), kGroup, 2), HasSubstr("one group; expected strategy column"));
  EXPECT_THAT(Words(grouped, ShapesOf(grouped, x), kRow, 2), HasSubstr("2 groups; expected strategy group"));
  EXPECT_THAT(Words(grouped, ShapesOf(grouped, x), kColumn, 2), HasSubstr("2 groups; expected strategy group"));
  EXPECT_THAT(Words(grouped, ShapesOf(grouped, x), kGroup, 3), HasSubstr("its 2 groups or is a multiple of them, found 3"));
  EXPECT_THAT(Words(Concat{}, ShapesOf(Concat{}, {x[0], x[0]}), kColumn, 2),
              HasSubstr("expected replicate, batch or group"));
  EXPECT_THAT(Words(Relu{}, ShapesOf(Relu{}, x), kColumn, 2), HasSubstr("expected replicate, batch or group"));
}

TEST(Strategy, NamesAreReadBack) {
  for (Strategy s : kStrategies) EXPECT_EQ(StrategyFromName(Name(s)), s);
  EXPECT_EQ(StrategyFromName("columns"), std::nullopt);
}

}  // namespace
}  // namespace colonnade::layers
