#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using layers::Inner;
using program::DType;
using program::Pass;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kTotals = 3;  // the inner tensor of a normalisation in groups that its running statistics are made of

// images [4] → norm1 → fc → norm2 → loss
layers::LayerGraph TwoNorms() {
  layers::GraphBuilder net("two_norms");
  const auto x = net.BatchNorm("norm1", net.Input("images", {4}), {.samples_per_group = 2});
  net.SoftmaxCrossEntropy(
      "loss", net.BatchNorm("norm2", net.FullyConnected("fc", x, {.out_features = 4}), {.samples_per_group = 2}));
  return Built(std::move(net));
}

// Sums of normalisations, their reductions, and what updates running statistics by them.
struct StatisticsCase : LoweringCase {
  explicit StatisticsCase(program::Mode mode = program::Mode::kTrain)
      : LoweringCase(TwoNorms(), PlanOf(TwoNorms(), 2, 2, {kReplicate, kReplicate}), {.mode = mode, .global_batch = 8}) {}

  ValueId Make(const std::string& norm, const TensorPlacement& placement, std::optional<DType> dtype = DType::kF64) {
    const ValueId made = Add(norm + ".totals", {1, 2, 4}, placement);
    lowering.values[made.value].dtype = dtype;
    ForwardOf(norm, {{Inner(kTotals), made}});
    return made;
  }
  ValueId Reduce(ValueId value, int axis, layers::Placement from = layers::Placement::Partial()) {
    Value reduced = lowering.value(value);
    reduced.name += ".whole";
    reduced.placement[axis] = kR;
    reduced.in_place_of = value;
    const ValueId result = lowering.AddValue(std::move(reduced));
    Act(Reshard{{.axis = axis, .kind = ReshardKind::kAllReduce, .from = from, .to = kR}}, "sum", Pass::kForward,
        {{value, lowering.value(value).placement}}, {result});
    return result;
  }
  // The stage that updates running statistics, which writes nothing else.
  void Track(const std::string& norm, ValueId value) {
    const int node = Node(norm);
    const std::vector<layers::Stage>& stages = lowering.shardings[node].stages.stages;
    const auto track = absl::c_find_if(stages, [](const layers::Stage& stage) { return stage.writes.empty(); });
    ASSERT_NE(track, stages.end());
    std::vector<ActionOperand> inputs(track->reads.size());
    inputs[IndexOf(track->reads, Inner(kTotals))] = {value, {kR, kR}};
    Act(RunStage{node, static_cast<int>(track - stages.begin())}, norm, Pass::kForward, std::move(inputs), {});
  }
  // One sum of a normalisation that alone its running statistics are made of.
  void Whole(const std::string& norm) { Track(norm, Reduce(Make(norm, {kP, kR}), 0)); }

  std::vector<std::string> Bucketed() {
    EXPECT_TRUE(BucketStatistics(lowering).ok());
    return Actions(lowering);
  }
};

constexpr char kMake1[] = "forward norm1: -> norm1.totals(P,R)", kMake2[] = "forward norm2: -> norm2.totals(P,R)",
               kTrack1[] = "forward norm1: norm1.totals.whole(R,R)", kTrack2[] = "forward norm2: norm2.totals.whole(R,R)",
               kReduce1[] = "all_reduce/0 sum: norm1.totals(P,R) -> norm1.totals.whole(R,R)";

TEST(BucketStatistics, SumsForStateAloneAreReducedTogetherOnceTheLastIsMade) {
  StatisticsCase c;
  c.Whole("norm1");
  c.Whole("norm2");
  c.BackwardOf("fc", {{D(X()), c.Add("dx", {8, 4}, {kR, kR})}});
  EXPECT_THAT(c.Bucketed(), ElementsAre(kMake1, kMake2,
                                        "reduce statistics statistics0: norm1.totals(P,R) norm2.totals(P,R) -> "
                                        "norm1.totals.whole(R,R) norm2.totals.whole(R,R)",
                                        "backward fc: -> dx(R,R)", kTrack1, kTrack2));
  ASSERT_EQ(c.lowering.statistics.size(), 1u);
  EXPECT_THAT(c.lowering.statistics[0].axes, ElementsAre(0));
}

TEST(BucketStatistics, WhatIsPartialOverTwoAxesIsReducedOnceOverBoth) {
  StatisticsCase c;
  c.Track("norm1", c.Reduce(c.Reduce(c.Make("norm1", {kP, kP}), 0), 1));
  EXPECT_THAT(c.Bucketed(), ElementsAre("forward norm1: -> norm1.totals(P,P)",
                                        "reduce statistics statistics0: norm1.totals(P,P) -> norm1.totals.whole.whole(R,R)",
                                        "forward norm1: norm1.totals.whole.whole(R,R)"));
  EXPECT_THAT(c.lowering.statistics[0].axes, ElementsAre(0, 1));
  const Action& reduction = c.lowering.actions[1];
  EXPECT_EQ(c.lowering.value(reduction.outputs[0]).in_place_of, reduction.inputs[0].value);
}

TEST(BucketStatistics, ABucketIsClosedOnceItHoldsAsManyBytesAsOneOfGradients) {
  for (const int64_t least : {64, 65}) {  // a sum has 64 bytes
    StatisticsCase c;
    c.plan.bucket_bytes = least;
    c.Whole("norm1");
    c.Whole("norm2");
    EXPECT_TRUE(BucketStatistics(c.lowering).ok());
    EXPECT_EQ(c.lowering.statistics.size(), least == 64 ? 2u : 1u);
  }
}

TEST(BucketStatistics, SumsOverOtherAxesOrOfOtherTypesLieInOtherBuckets) {
  StatisticsCase c;
  c.Whole("norm1");
  c.Track("norm2", c.Reduce(c.Make("norm2", {kR, kP}), 1));
  c.Track("norm2", c.Reduce(c.Make("norm2", {kP, kR}, DType::kF32), 0));
  EXPECT_TRUE(BucketStatistics(c.lowering).ok());
  EXPECT_EQ(c.lowering.statistics.size(), 3u);
}

TEST(BucketStatistics, ASumThatSomethingElseReadsIsReducedByItself) {
  for (const bool reads_summand : {true, false}) {
    StatisticsCase c;
    const ValueId summand = c.Make("norm1", {kP, kR}), whole = c.Reduce(summand, 0);
    c.ForwardOf("norm1", {{Inner(0), reads_summand ? summand : whole, {kP, kR}}, {Y(), c.Add("y", {8, 4}, {kR, kR})}});
    c.Track("norm1", whole);
    EXPECT_EQ(c.Bucketed()[1], kReduce1);
    EXPECT_THAT(c.lowering.statistics, IsEmpty());
  }
}

// A run is less than an axis; and a value without a type of its own may be rounded behind its sum.
TEST(BucketStatistics, SumsInRunsAndSumsOfNoTypeAreReducedByThemselves) {
  StatisticsCase c;
  c.Track("norm1", c.Reduce(c.Make("norm1", {layers::Placement::Partial(2), kR}), 0, layers::Placement::Partial(2)));
  c.Track("norm2", c.Reduce(c.Make("norm2", {kP, kR}, std::nullopt), 0));
  const std::vector<std::string> before = Actions(c.lowering);
  EXPECT_THAT(c.Bucketed(), ElementsAre(before[0], before[1], before[3], before[4], before[2], before[5]));
}

TEST(BucketStatistics, ASumOfASumWithinRunsIsReducedByItself) {
  StatisticsCase c;
  const ValueId in_runs = c.Reduce(c.Make("norm1", {layers::Placement::Partial(2), kP}), 0, layers::Placement::Partial(2));
  c.Track("norm1", c.Reduce(in_runs, 1));
  const std::vector<std::string> before = Actions(c.lowering);
  EXPECT_EQ(c.Bucketed(), before);
}

// The sums that they read move while the rest of the step goes on.
TEST(BucketStatistics, WhatOnlyUpdatesStateGoesLastInTraining) {
  for (const program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
    StatisticsCase c(mode);
    c.ForwardOf("fc", {});
    c.ForwardOf("loss", {{Y(), c.Add("y", {8, 4}, {kR, kR})}});
    const char *updates = "forward fc:", *makes = "forward loss: -> y(R,R)";
    if (mode == program::Mode::kTrain) {
      EXPECT_THAT(c.Bucketed(), ElementsAre(makes, updates));
    } else {
      EXPECT_THAT(c.Bucketed(), ElementsAre(updates, makes));
    }
  }
}

}  // namespace
}  // namespace colonnade::partition
