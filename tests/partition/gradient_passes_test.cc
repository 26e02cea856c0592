// BucketGradients and InsertGradientReduction.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// TwoLayers on two replicas: parameters of 24, 6, 24 and 4 elements, whose gradients are sums over axis 0.
struct GradientCase : LoweringCase {
  explicit GradientCase(LowerOptions of_options = {.global_batch = 8},
                        const std::map<std::string, std::vector<layers::Strategy>>& named = {})
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 2, 1, {kBatch, kReplicate}, named), of_options) {
    for (const char* layer : {"fc1", "fc2"}) {
      int index = 0;
      for (const layers::ParameterSpec& spec : graph.nodes[Node(layer)].parameters) {
        lowering.parameters.push_back(
            {.spec = spec, .node = Node(layer), .index = index++, .placement = {kR, kR}, .gradient = {kP, kR}});
      }
    }
  }
  // The bucket of fc2's parameters, then that of fc1's.
  void TwoBuckets() {
    Buckets();
    BackwardOf("fc2", ParametersOf("fc2", /*gradients=*/true));
    BackwardOf("relu", {});
    BackwardOf("fc1", ParametersOf("fc1", /*gradients=*/true));
  }
  void Buckets() {
    for (int b : {0, 1}) {
      lowering.buckets.push_back({.name = absl::StrCat("bucket", b), .parameters = {2 - 2 * b, 3 - 2 * b}, .axes = {0}});
      for (int m : {0, 1}) {
        lowering.parameters[2 - 2 * b + m].bucket = b;
        lowering.parameters[2 - 2 * b + m].member = m;
      }
    }
  }
};

TEST(BucketGradients, TheLastLayersComeFirstAndAWeightBeforeItsBias) {
  GradientCase c;
  ASSERT_TRUE(BucketGradients(c.lowering).ok());
  EXPECT_THAT(Buckets(c.lowering), ElementsAre("bucket0 over 0: fc2.weight fc2.bias fc1.weight fc1.bias"));
  EXPECT_EQ(c.lowering.parameters[0].member, 2);
  EXPECT_EQ(c.lowering.parameters[3].member, 1);
}

TEST(BucketGradients, ABucketHasTheNameOfNoLayer) {
  layers::GraphBuilder net("names");
  auto x = net.FullyConnected("bucket1", net.Input("images", {4}), {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  Plan plan = PlanOf(graph, 2, 1, {kBatch, kReplicate});
  plan.bucket_bytes = 1;
  LoweringCase c(graph, plan);
  ASSERT_TRUE(ExpandStages(c.lowering).ok() && ExpandShards(c.lowering).ok() && BucketGradients(c.lowering).ok());
  EXPECT_THAT(Buckets(c.lowering), ElementsAre("bucket0 over 0: fc.weight", "bucket1@ over 0: fc.bias",
                                               "bucket2 over 0: bucket1.weight", "bucket3 over 0: bucket1.bias"));
}

// fc2.weight has 96 bytes.
TEST(BucketGradients, ABucketIsClosedOnceItHoldsItsBytes) {
  GradientCase at, above;
  at.plan.bucket_bytes = 96;
  ASSERT_TRUE(BucketGradients(at.lowering).ok());
  EXPECT_THAT(Buckets(at.lowering),
              ElementsAre("bucket0 over 0: fc2.weight", "bucket1 over 0: fc2.bias fc1.weight", "bucket2 over 0: fc1.bias"));
  above.plan.bucket_bytes = 97;
  ASSERT_TRUE(BucketGradients(above.lowering).ok());
  EXPECT_THAT(Buckets(above.lowering),
              ElementsAre("bucket0 over 0: fc2.weight fc2.bias", "bucket1 over 0: fc1.weight fc1.bias"));
}

TEST(BucketGradients, OnlyWhatADeviceHoldsCounts) {
  GradientCase c;
  c.plan.mesh = Mesh::ReplicasByColumns(2, 2);
  for (ShardedParameter& p : c.lowering.parameters) p.placement = {kR, kS0};
  c.plan.bucket_bytes = 49;  // of fc2.weight, 48 are held
  ASSERT_TRUE(BucketGradients(c.lowering).ok());
  EXPECT_THAT(Buckets(c.lowering),
              ElementsAre("bucket0 over 0: fc2.weight fc2.bias", "bucket1 over 0: fc1.weight fc1.bias"));
}

// 58 elements, 232 bytes, in one bucket.
TEST(BucketGradients, ABucketIsReducedInPartsThatAreNoLarger) {
  for (const auto& [piece_bytes, parts] : std::vector<std::pair<int64_t, int>>{{232, 1}, {231, 2}, {116, 2}, {115, 3}}) {
    GradientCase c;
    c.plan.layers["fc1"] = {kBatch, kColumn};
    c.plan.mesh = Mesh::ReplicasByColumns(2, 2);
    c.plan.piece_bytes = piece_bytes;
    ASSERT_TRUE(BucketGradients(c.lowering).ok());
    EXPECT_EQ(c.lowering.buckets[0].reduction_parts, parts) << piece_bytes;
  }
}

TEST(BucketGradients, ABucketIsReducedWholeWhereNothingCouldGoFirst) {
  const auto parts = [](auto change) {
    GradientCase c;
    c.plan.layers["fc1"] = {kBatch, kColumn};
    c.plan.mesh = Mesh::ReplicasByColumns(2, 2);
    c.plan.piece_bytes = 100;
    change(c);
    EXPECT_TRUE(BucketGradients(c.lowering).ok());
    return c.lowering.buckets[0].reduction_parts;
  };
  EXPECT_EQ(parts([](GradientCase&) {}), 3);
  EXPECT_EQ(parts([](GradientCase& c) { c.plan.overlap = false; }), 1);
  EXPECT_EQ(parts([](GradientCase& c) { c.plan.reduction = Reduction::kSharded; }), 1);
  EXPECT_EQ(parts([](GradientCase& c) { c.plan.mesh = Mesh::ReplicasByColumns(2, 1); }), 1) << "no activation moves";
  EXPECT_EQ(parts([](GradientCase& c) {
              for (ShardedParameter& p : c.lowering.parameters) p.gradient = {kR, kR};
            }),
            1)
      << "nothing is reduced";
}

TEST(BucketGradients, ABucketIsReducedOverTheSameAxes) {
  GradientCase c;
  c.lowering.parameters[2].gradient = {kR, kR};
  c.lowering.parameters[0].gradient = {kP, kP};  // axis 1 has one position: nothing to sum over
  ASSERT_TRUE(BucketGradients(c.lowering).ok());
  EXPECT_THAT(Buckets(c.lowering), ElementsAre("bucket0 over : fc2.weight", "bucket1 over 0: fc2.bias fc1.weight fc1.bias"));
}

TEST(InsertGradientReduction, ABucketIsReducedAndUpdatedOnceItsLastGradientIsMade) {
  GradientCase c;
  c.TwoBuckets();
  ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("backward fc2:", "check bucket0:", "reduce bucket0:", "update bucket0:", "backward relu:",
                          "backward fc1:", "check bucket1:", "reduce bucket1:", "update bucket1:"));
}

// Two stages of fc2 make gradients of one bucket, in either order.
TEST(InsertGradientReduction, ABiasThatIsAnActionOfItsOwnIsWaitedFor) {
  for (const bool bias_first : {true, false}) {
    GradientCase c({.global_batch = 8}, {{"fc2", {kBatch, kRow}}});
    c.Buckets();
    const std::vector<SlotValue> of_fc2 = c.ParametersOf("fc2", /*gradients=*/true);
    ASSERT_EQ(of_fc2.size(), 2u);
    for (const bool bias : {bias_first, !bias_first}) c.BackwardOf("fc2", {of_fc2[bias ? 1 : 0]});
    c.BackwardOf("fc1", c.ParametersOf("fc1", /*gradients=*/true));
    ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
    const std::vector<std::string> actions = Actions(c.lowering);
    EXPECT_THAT(std::vector<std::string>(actions.begin(), actions.begin() + 4),
                ElementsAre("backward fc2:", "backward fc2:", "check bucket0:", "reduce bucket0:"));
  }
}

// What counts is the value that an action makes: a stage that only reads the weight, or makes another's gradient, is none.
TEST(InsertGradientReduction, AnActionThatReadsAParameterMakesNoGradient) {
  GradientCase c;
  c.Buckets();
  c.BackwardOf("fc2", c.ParametersOf("fc2", /*gradients=*/true));
  c.BackwardOf("fc1", {c.ParametersOf("fc1", /*gradients=*/false)[0]});
  const absl::Status status = InsertGradientReduction(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 gradients of bucket1 are never made"));
}

TEST(InsertGradientReduction, WithoutOverlapReductionsComeAfterBackward) {
  GradientCase c;
  c.TwoBuckets();
  c.plan.overlap = false;
  ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("backward fc2:", "check bucket0:", "backward relu:", "backward fc1:", "check bucket1:",
                          "reduce bucket0:", "update bucket0:", "reduce bucket1:", "update bucket1:"));
}

TEST(InsertGradientReduction, WhatSomeDevicesUpdateIsGathered) {
  for (Reduction reduction : {Reduction::kSharded, Reduction::kMaster}) {
    GradientCase c({.global_batch = 8, .expose_gradients = true});
    c.TwoBuckets();
    c.plan.reduction = reduction;
    c.lowering.buckets[1].axes = {};  // fc1's gradients are whole everywhere
    ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
    std::vector<std::string> expected = {"backward fc2:", "check bucket0:", "reduce bucket0:"};
    if (reduction == Reduction::kSharded) expected.push_back("gather_gradients bucket0:");
    for (const char* line :
         {"update bucket0:", "gather bucket0:", "backward relu:", "backward fc1:", "check bucket1:", "update bucket1:"}) {
      expected.push_back(line);
    }
    EXPECT_EQ(Actions(c.lowering), expected) << Name(reduction);
  }
}

TEST(InsertGradientReduction, PartsAreReducedInTurnAndUpdatedTogether) {
  for (Reduction reduction : {Reduction::kAllReduce, Reduction::kMaster}) {
    GradientCase c;
    c.TwoBuckets();
    c.plan.reduction = reduction;
    c.lowering.buckets[0].reduction_parts = 2;
    ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
    std::vector<std::string> expected = {
        "backward fc2:", "check bucket0:", "reduce bucket0:", "reduce bucket0:", "update bucket0:"};
    if (reduction == Reduction::kMaster) expected.push_back("gather bucket0:");
    std::vector<std::string> actions = Actions(c.lowering);
    actions.resize(expected.size());
    EXPECT_EQ(actions, expected);
    EXPECT_EQ(std::get<ReduceGradients>(c.lowering.actions[3].body).part, 1);
  }
}

// ReLU's action makes nothing here, as one that updates running statistics.
TEST(InsertGradientReduction, UpdatesOfParametersAndOfStateStandBehindTheGateThatTheyObey) {
  for (const int64_t devices : {2, 1}) {
    GradientCase c({.global_batch = 8, .update = {.clip_norm = 1}});
    c.TwoBuckets();
    c.plan.mesh = Mesh::ReplicasByColumns(devices, 1);
    ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
    if (devices == 1) {
      EXPECT_THAT(Actions(c.lowering), ElementsAre("backward fc2:", "check bucket0:", "measure bucket0:", "backward fc1:",
                                                   "check bucket1:", "measure bucket1:", "open gate gate:",
                                                   "update bucket0:", "update bucket1:", "backward relu:"));
    } else {
      EXPECT_THAT(Actions(c.lowering),
                  ElementsAre("backward fc2:", "check bucket0:", "reduce bucket0:", "measure bucket0:", "backward fc1:",
                              "check bucket1:", "reduce bucket1:", "measure bucket1:", "sum norms gate:", "open gate gate:",
                              "update bucket0:", "update bucket1:", "backward relu:"));
    }
  }
}

TEST(InsertGradientReduction, EvaluationReducesNothing) {
  GradientCase c({.mode = program::Mode::kEval, .global_batch = 8});
  ASSERT_TRUE(InsertGradientReduction(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), IsEmpty());
}

TEST(InsertGradientReduction, AGradientThatIsNeverMadeIsAnInternalError) {
  GradientCase c;
  c.TwoBuckets();
  c.lowering.actions.pop_back();
  const absl::Status status = InsertGradientReduction(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 gradients of bucket1"));
}

}  // namespace
}  // namespace colonnade::partition
