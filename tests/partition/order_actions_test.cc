// OrderActions counts 400 ns for 1,000 elements of a bucket or of a value that is moved. In the same time an action other
// than a product makes 50,000 elements, and a product does 4,000,000 flop.
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using ::testing::ElementsAre;

// Reductions of `bucket_elements` each.
struct OrderCase : LoweringCase {
  explicit OrderCase(const std::vector<int64_t>& bucket_elements, int64_t columns = 1,
                     const std::map<std::string, std::vector<layers::Strategy>>& named = {}, int64_t batch = 8)
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 2, columns, {kBatch, kReplicate}, named), {.global_batch = batch}) {
    plan.reduction = Reduction::kSharded;
    for (size_t b = 0; b < bucket_elements.size(); ++b) {
      const int index = static_cast<int>(b);
      lowering.parameters.push_back({.spec = {.shape = {bucket_elements[b]}}, .placement = {kR, kR}, .bucket = index});
      lowering.buckets.push_back({.name = absl::StrCat("bucket", b), .parameters = {index}, .axes = {0}});
    }
  }
  void Reduce(int bucket) {
    const std::string& name = lowering.buckets[bucket].name;
    Act(ReduceGradients{bucket}, name, Pass::kBackward, {}, {});
    Act(UpdateParameters{bucket}, name, Pass::kUpdate, {}, {});
  }
  // A transfer of so many elements.
  ValueId Gather(const std::string& name, int64_t elements) {
    const ValueId moved = Add(name, {2 * elements}, {kS0, kR});
    Act(Reshard{{.axis = 0, .kind = ReshardKind::kAllGather}}, "relu", Pass::kBackward, {}, {moved});
    return moved;
  }
  // The backward action of a ReLU that takes as long as the transfer of so many elements, and reads `dy`.
  void Relu(const std::string& name, int64_t elements, ValueId dy = {}) {
    BackwardOf("relu", {{D(X()), Add(name, {2 * 50 * elements}, {kS0, kR})}, {D(Y()), dy, {kS0, kR}}});
  }
};

TEST(OrderActions, AnUpdateStandsWhereItsReductionIsExpectedToHaveEnded) {
  OrderCase c({100});
  c.Reduce(0);
  for (const char* name : {"a", "b", "c", "d"}) c.Relu(name, 40);  // 120 elements are over after c
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "backward relu: -> b(S0,R)",
                                               "backward relu: -> c(S0,R)", "update bucket0:", "backward relu: -> d(S0,R)"));
}

// Of 10 elements; two of them in a row.
TEST(OrderActions, AnUpdateThatGathersNothingLetsItsReductionTakeTenTimesAsLong) {
  for (const Reduction reduction : kReductions) {
    OrderCase c({10, 10});
    c.plan.reduction = reduction;
    c.Reduce(0);
    c.Reduce(1);
    for (const char* name : {"a", "b", "c", "d"}) c.Relu(name, reduction == Reduction::kAllReduce ? 100 : 10);
    ASSERT_TRUE(OrderActions(c.lowering).ok());
    EXPECT_THAT(Actions(c.lowering), ElementsAre("reduce bucket0:", "reduce bucket1:", "backward relu: -> a(S0,R)",
                                                 "update bucket0:", "backward relu: -> b(S0,R)", "update bucket1:",
                                                 "backward relu: -> c(S0,R)", "backward relu: -> d(S0,R)"));
  }
}

TEST(OrderActions, AMeasureStandsWhereItsReductionIsExpectedToHaveEndedAndBeforeTheSumOfNorms) {
  for (const int behind : {4, 1}) {
    OrderCase c({100});
    c.Act(ReduceGradients{0}, "bucket0", Pass::kBackward, {}, {});
    c.Act(MeasureGradients{0}, "bucket0", Pass::kUpdate, {}, {});
    for (int i = 0; i < behind; ++i) c.Relu(absl::StrCat("a", i), 40);  // 120 elements are over after the third
    c.Act(SumNorms{}, "gate", Pass::kUpdate, {}, {});
    ASSERT_TRUE(OrderActions(c.lowering).ok());
    const std::vector<std::string> actions = Actions(c.lowering);
    EXPECT_EQ(actions[behind == 4 ? 4 : 2], "measure bucket0:");
    EXPECT_EQ(actions.back(), "sum norms gate:");
  }
}

TEST(OrderActions, StatisticsMoveBeforeTheReductionsBehindThem) {
  OrderCase c({40});
  const ValueId summand = c.Add("totals", {40}, {kP, kR}), whole = c.Add("whole", {40}, {kR, kR});
  c.Act(ReduceStatistics{0}, "statistics0", Pass::kForward, {{summand, {kP, kR}}}, {whole});
  c.Reduce(0);
  for (const char* name : {"a", "b", "c"}) c.Relu(name, 40);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[4], "update bucket0:") << "after 80 elements";
}

TEST(OrderActions, AReductionThatEndsAsAnActionDoesIsInTime) {
  for (int64_t bucket : {80, 81}) {
    OrderCase c({bucket});
    c.Reduce(0);
    for (const char* name : {"a", "b", "c", "d"}) c.Relu(name, 40);
    ASSERT_TRUE(OrderActions(c.lowering).ok());
    EXPECT_EQ(Actions(c.lowering)[bucket == 80 ? 3 : 4], "update bucket0:") << bucket;
  }
}

TEST(OrderActions, ReductionsFollowOneAnotherAndGathersTheirUpdates) {
  OrderCase c({50, 50});
  c.Reduce(0);
  c.Act(GatherParameters{0}, "bucket0", Pass::kUpdate, {}, {});
  c.Relu("a", 10);
  c.Reduce(1);  // from 50 to 100, not from 10
  c.Relu("b", 50);
  c.Relu("c", 40);
  c.Relu("d", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "reduce bucket1:", "backward relu: -> b(S0,R)",
                          "update bucket0:", "gather bucket0:", "backward relu: -> c(S0,R)",
                          "update bucket1:", "backward relu: -> d(S0,R)"));
}

TEST(OrderActions, AnExchangeOfActivationsHoldsUpItsReaderAndWaitsForAReductionThatHasBegun) {
  OrderCase c({100});
  c.Reduce(0);
  c.Relu("a", 1);
  const ValueId moved = c.Gather("moved", 10);  // from 100 to 110
  c.Relu("b", 1);
  c.Relu("c", 1, moved);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "all_gather/0 relu: -> moved(S0,R)",
                          "backward relu: -> b(S0,R)", "update bucket0:", "backward relu: moved(S0,R) -> c(S0,R)"));
}

// Parts of 40 move until 40 and 80, the bucket until 100. The first part is read at 40, and b ends at 95.
TEST(OrderActions, APartHoldsUpTheReaderOfThatPartAlone) {
  OrderCase c({20});
  c.lowering.batch_parts = 2;
  std::vector<Action>& actions = c.lowering.actions;
  const ValueId moved = c.Gather("moved", 80);
  actions.push_back(actions.back());
  for (int part : {0, 1}) actions[part].batch_part = part;
  c.Reduce(0);
  c.Relu("a", 10, moved);
  const Action a = actions.back();
  actions.back().batch_part = 0;
  c.Relu("b", 50);
  c.Relu("c", 1);
  actions.push_back(a);
  actions.back().batch_part = 1;
  c.Relu("d", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("all_gather/0 relu: -> moved(S0,R) part 0", "all_gather/0 relu: -> moved(S0,R) part 1",
                          "reduce bucket0:", "backward relu: moved(S0,R) -> a(S0,R) part 0", "backward relu: -> b(S0,R)",
                          "backward relu: -> c(S0,R)", "backward relu: moved(S0,R) -> a(S0,R) part 1",
                          "update bucket0:", "backward relu: -> d(S0,R)"));
}

// bucket1 would begin at 100, behind bucket0; the exchange is wanted at 10.
TEST(OrderActions, AnExchangeOfActivationsGoesBeforeReductionsThatHaveNotBegun) {
  OrderCase c({100, 50});
  c.Reduce(0);
  c.Relu("a", 10);
  c.Reduce(1);
  const ValueId moved = c.Gather("moved", 10);  // from 100 to 110, and bucket1 from there to 160
  c.Relu("b", 49, moved);
  c.Relu("c", 1);
  c.Relu("d", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "all_gather/0 relu: -> moved(S0,R)",
                          "reduce bucket1:", "update bucket0:", "backward relu: moved(S0,R) -> b(S0,R)",
                          "backward relu: -> c(S0,R)", "update bucket1:", "backward relu: -> d(S0,R)"));
}

// Of four parts of 25 elements two have begun at 30; the exchange waits for 20 elements instead of 70.
TEST(OrderActions, AnExchangeOfActivationsWaitsForOnePartOfABucket) {
  OrderCase c({100});
  c.lowering.buckets[0].reduction_parts = 4;
  for (int part = 0; part < 4; ++part) c.Act(ReduceGradients{0, part}, "bucket0", Pass::kBackward, {}, {});
  c.Act(UpdateParameters{0}, "bucket0", Pass::kUpdate, {}, {});
  c.Relu("a", 30);
  const ValueId moved = c.Gather("moved", 10);  // from 50 to 60, and the parts that are left from there to 110
  c.Relu("b", 50, moved);
  c.Relu("c", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("reduce bucket0:", "reduce bucket0:", "backward relu: -> a(S0,R)",
                                               "all_gather/0 relu: -> moved(S0,R)",
                                               "reduce bucket0:", "reduce bucket0:", "backward relu: moved(S0,R) -> b(S0,R)",
                                               "update bucket0:", "backward relu: -> c(S0,R)"));
  for (const auto& [at, part] : std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {4, 2}, {5, 3}}) {
    EXPECT_EQ(std::get<ReduceGradients>(c.lowering.actions[at].body).part, part);
  }
}

// A slice is a copy on the device itself.
TEST(OrderActions, ASliceIsNoTransfer) {
  OrderCase c({100, 50});
  c.Reduce(0);
  c.Relu("a", 10);
  c.Reduce(1);
  c.Act(Reshard{{.axis = 0, .kind = ReshardKind::kSlice}}, "relu", Pass::kBackward, {}, {c.Add("cut", {20}, {kS0, kR})});
  c.Relu("b", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "reduce bucket1:", "slice/0 relu: -> cut(S0,R)",
                          "backward relu: -> b(S0,R)", "update bucket0:", "update bucket1:"));
}

// What gathers a bucket's gradients stays behind what scatters them.
TEST(OrderActions, ReductionsThatAreOvertakenKeepTheirOrder) {
  OrderCase c({100, 50});
  c.Reduce(0);
  c.Act(ReduceGradients{1}, "bucket1", Pass::kBackward, {}, {});
  c.Act(GatherGradients{1}, "bucket1", Pass::kBackward, {}, {});
  c.Relu("a", 1);
  c.Gather("moved", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("reduce bucket0:", "backward relu: -> a(S0,R)", "all_gather/0 relu: -> moved(S0,R)",
                          "reduce bucket1:", "gather_gradients bucket1:", "update bucket0:"));
}

// fc1 of 375 samples on each device: 2·375·6·4 = 18,000 flop, which take as long as 4.5 elements.
TEST(OrderActions, ProductsCountTheirFlops) {
  for (const bool backward : {true, false}) {
    for (int64_t bucket : {4, 5}) {
      OrderCase c({bucket}, /*columns=*/1, {}, /*batch=*/750);
      c.Reduce(0);
      backward ? c.BackwardOf("fc1", {}) : c.ForwardOf("fc1", {});
      c.Relu("a", 1);
      ASSERT_TRUE(OrderActions(c.lowering).ok());
      EXPECT_EQ(Actions(c.lowering)[bucket == 4 ? 2 : 3], "update bucket0:") << bucket << backward;
    }
  }
}

// Beside the arithmetic of 75 samples, 0.9 elements, fc1 makes 24 elements of a gradient: 0.48, were they moved.
TEST(OrderActions, GradientsOfParametersAreNotCountedAsMoved) {
  OrderCase c({1}, /*columns=*/1, {}, /*batch=*/150);
  c.lowering.parameters.push_back({.spec = {.name = "w", .shape = {6, 4}}, .node = c.Node("fc1"), .placement = {kR, kR}});
  c.Reduce(0);
  c.BackwardOf("fc1", c.ParametersOf("fc1", /*gradients=*/true));
  c.Relu("a", 1);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[3], "update bucket0:");
}

// fc2 by rows: 1,200 samples and 3 of 6 features on each device are 2·1200·3·4 = 28,800 flop of a product, 7.2 elements. To
// add the bias to 1,200·4 elements would be 1.2 elements, were its flops counted.
TEST(OrderActions, AStageThatAddsABiasCountsNoFlops) {
  for (const bool adds_bias : {true, false}) {
    OrderCase c({1}, /*columns=*/2, {{"fc2", {kBatch, kRow}}}, /*batch=*/2400);
    c.Reduce(0);
    c.ForwardOf("fc2", {{layers::Parameter(adds_bias ? 1 : 0), c.Add("parameter", {4})}});
    c.Relu("a", 1);
    ASSERT_TRUE(OrderActions(c.lowering).ok());
    EXPECT_EQ(Actions(c.lowering)[adds_bias ? 3 : 2], "update bucket0:");
  }
}

TEST(OrderActions, WithoutOverlapNothingMoves) {
  OrderCase c({100});
  c.plan.overlap = false;
  c.Reduce(0);
  c.Relu("a", 1000);
  const std::vector<std::string> before = Actions(c.lowering);
  ASSERT_TRUE(OrderActions(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering), before);
}

}  // namespace
}  // namespace colonnade::partition
