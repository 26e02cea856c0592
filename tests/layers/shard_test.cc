// Legal shardings of every layer: local extents multiply back to global ones, and what is not legal says why.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/layer.h"

namespace colonnade::layers {
namespace {

using program::Shape;
using ::testing::HasSubstr;

LayerShapes ShapesOf(const Layer& layer, const std::vector<Shape>& inputs) {
  LayerShapes shapes{.inputs = inputs, .global_inputs = inputs};
  std::vector<Shape> samples;
  for (const Shape& x : inputs) samples.emplace_back(x.begin() + 1, x.end());
  absl::StatusOr<Shape> sample = OutputSampleShape(layer, samples);
  EXPECT_TRUE(sample.ok()) << sample.status();
  shapes.output = {inputs[0][0]};
  shapes.output.insert(shapes.output.end(), sample->begin(), sample->end());
  shapes.global_output = shapes.output;
  for (const ParameterSpec& p : Parameters(layer, inputs)) shapes.parameters.push_back(p.shape);
  return shapes;
}

struct Case {
  const char* name;
  Layer layer;
  std::vector<Shape> inputs;
  std::vector<Strategy> legal;  // on 2 and on 4 positions
};

std::vector<Case> Cases() {
  const Shape image = {8, 8, 6, 6}, flat = {8, 16};
  using enum Strategy;
  return {
      {"conv", Conv2d{.out_channels = 16, .kernel = 3}, {image}, {kReplicate, kBatch, kColumn}},
      {"conv_without_bias", Conv2d{.out_channels = 16, .kernel = 3, .bias = false}, {image}, {kReplicate, kBatch, kColumn, kRow}},
      {"grouped_conv", Conv2d{.out_channels = 16, .kernel = 3, .groups = 4}, {image}, {kReplicate, kBatch, kGroup}},
      {"conv_of_2_groups", Conv2d{.out_channels = 16, .kernel = 3, .groups = 2}, {image}, {kReplicate, kBatch, kGroup}},
      {"fc", FullyConnected{.out_features = 12}, {flat}, {kReplicate, kBatch, kColumn}},
      {"fc_without_bias", FullyConnected{.out_features = 12, .bias = false}, {flat}, {kReplicate, kBatch, kColumn, kRow}},
      {"relu", Relu{}, {image}, {kReplicate, kBatch, kGroup}},
      {"max_pool", MaxPool{.kernel = 2}, {image}, {kReplicate, kBatch, kGroup}},
      {"avg_pool", AvgPool{.kernel = 3, .stride = 2, .pad = 1}, {image}, {kReplicate, kBatch, kGroup}},
      {"lrn", Lrn{}, {image}, {kReplicate, kBatch}},
      {"lrn_of_2_groups", Lrn{.groups = 2}, {image}, {kReplicate, kBatch, kGroup}},
      {"dropout", Dropout{}, {flat}, {kReplicate, kBatch, kGroup}},
      {"flatten", Flatten{}, {image}, {kReplicate, kBatch, kGroup}},
      {"add", Add{}, {image, image}, {kReplicate, kBatch, kGroup}},
      {"concat", Concat{}, {image, image}, {kReplicate, kBatch}},
      {"loss", SoftmaxCrossEntropy{}, {flat}, {kReplicate, kBatch}},
  };
}

// Elements over all positions: each once where a tensor is cut, each `size` times where it is whole.
void ExpectWhole(const Placement& p, const Shape& shape, int64_t size, const std::string& what) {
  if (p.kind == Placement::Kind::kSplit) {
    ASSERT_LT(p.dim, static_cast<int>(shape.size())) << what;
    EXPECT_EQ(shape[p.dim] % size, 0) << what;
  }
  EXPECT_EQ(size % p.groups, 0) << what;
  if (p.groups > 1) {
    EXPECT_EQ(shape[1] % p.groups, 0) << what;
  }
}

TEST(Shard, EveryLayerIsLegalUnderItsStrategiesAndNoOther) {
  for (const Case& c : Cases()) {
    const LayerShapes shapes = ShapesOf(c.layer, c.inputs);
    for (int64_t size : {2, 4}) {
      for (Strategy s : {Strategy::kReplicate, Strategy::kBatch, Strategy::kColumn, Strategy::kGroup, Strategy::kRow}) {
        const std::string what = std::string(c.name) + " " + Name(s) + " " + std::to_string(size);
        absl::StatusOr<Sharding> sharding = Shard(c.layer, shapes, s, size);
        const bool legal = std::find(c.legal.begin(), c.legal.end(), s) != c.legal.end();
        EXPECT_EQ(sharding.ok(), legal) << what << " " << sharding.status();
        if (!sharding.ok()) continue;
        ASSERT_EQ(sharding->inputs.size(), c.inputs.size()) << what;
        ASSERT_EQ(sharding->input_gradients.size(), c.inputs.size()) << what;
        ASSERT_EQ(sharding->parameters.size(), shapes.parameters.size()) << what;
        ASSERT_EQ(sharding->parameter_gradients.size(), shapes.parameters.size()) << what;
        for (size_t i = 0; i < c.inputs.size(); ++i) ExpectWhole(sharding->inputs[i], c.inputs[i], size, what);
        for (size_t i = 0; i < shapes.parameters.size(); ++i) {
          ExpectWhole(sharding->parameters[i], shapes.parameters[i], size, what);
        }
        if (!std::holds_alternative<SoftmaxCrossEntropy>(c.layer)) ExpectWhole(sharding->output, shapes.output, size, what);
        EXPECT_NE(sharding->output_gradient.kind, Placement::Kind::kPartial) << what;
      }
    }
  }
}

TEST(Shard, MoreColumnsThanGroupsGatherTheGroup) {
  const Layer conv = Conv2d{.out_channels = 16, .kernel = 3, .groups = 2};
  absl::StatusOr<Sharding> sharding = Shard(conv, ShapesOf(conv, {{8, 8, 6, 6}}), Strategy::kGroup, 4);
  ASSERT_TRUE(sharding.ok());
  EXPECT_EQ(sharding->inputs[0], Placement::Replicated(2));
  EXPECT_EQ(sharding->input_gradients[0], Placement::Partial(2));
  EXPECT_EQ(sharding->output, Placement::Split(1));
}

TEST(Shard, AnIllegalSizeNamesTheNearestThatWork) {
  const Layer conv = Conv2d{.out_channels = 256, .kernel = 3};
  const absl::Status status = Shard(conv, ShapesOf(conv, {{8, 8, 6, 6}}), Strategy::kColumn, 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"3 positions", "output channels", "found 256", "255 or 258", "1, 2, 4"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(Emit, WeightsComeBeforeDataInBackwardAndNothingIsComputedThatNobodyNeeds) {
  const Conv2d conv{.out_channels = 4, .kernel = 3, .groups = 2};
  auto operand = [](int32_t id, Shape shape) { return Operand{program::BufferId{id}, std::move(shape)}; };
  BackwardShard shard{.inputs = {operand(0, {2, 4, 5, 5})},
                      .parameters = {operand(1, {4, 2, 3, 3}), operand(2, {4})},
                      .d_output = operand(3, {2, 4, 3, 3}),
                      .d_inputs = {operand(4, {2, 4, 5, 5})},
                      .d_parameters = {operand(5, {4, 2, 3, 3}), operand(6, {4})}};
  std::vector<EmittedOp> ops = EmitBackward(conv, shard);
  ASSERT_EQ(ops.size(), 2u);
  const auto& weights = std::get<program::ConvBackwardWeights>(ops[0].op);
  EXPECT_EQ(weights.groups, 2);
  EXPECT_EQ(ops[0].uses.size(), 4u);
  EXPECT_EQ(ops[0].work.flops, 2 * (2 * 4 * 9) * 2 * 9);
  EXPECT_TRUE(std::holds_alternative<program::ConvBackwardData>(ops[1].op));
  shard.d_inputs = {std::nullopt};
  EXPECT_EQ(EmitBackward(conv, shard).size(), 1u);
}

TEST(Emit, DropoutIsACopyInEvaluation) {
  ForwardShard shard{.inputs = {{program::BufferId{0}, {2, 4}}}, .output = {program::BufferId{1}, {2, 4}}, .train = false};
  EXPECT_TRUE(std::holds_alternative<program::Copy>(EmitForward(Dropout{}, shard)[0].op));
}

}  // namespace
}  // namespace colonnade::layers
