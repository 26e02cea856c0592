#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using ::testing::ElementsAre;

// Backward of fc2 and fc1, where fc2 lies in columns: its dx is a partial sum.
struct HideCase : LoweringCase {
  HideCase()
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 1, 2, {kReplicate, kReplicate}, {{"fc2", {kReplicate, kColumn}}})) {
    for (const char* layer : {"fc2", "fc1"}) {
      lowering.parameters.push_back(
          {.spec = {.name = absl::StrCat(layer, ".w"), .shape = {4, 6}}, .node = Node(layer), .placement = {kR, kR}});
    }
  }
  // What makes the gradient of a layer's weight from `dy`.
  ValueId Weights(const std::string& layer, ValueId dy = {}) {
    std::vector<SlotValue> values = ParametersOf(layer, /*gradients=*/true);
    const ValueId gradient = values[0].value;
    if (dy.valid()) values.push_back({D(Y()), dy, {kR, kR}});
    BackwardOf(layer, values);
    return gradient;
  }
  ValueId Input(const std::string& layer) {
    const ValueId dx = Add(absl::StrCat(layer, ".dx"), {8, 6}, {kR, kP});
    BackwardOf(layer, {{D(X()), dx}});
    return dx;
  }
  ValueId Sum(ValueId value, bool in_place = false) {
    const ValueId sum = Add(absl::StrCat(lowering.value(value).name, ".sum"), {8, 6}, {kR, kR});
    if (in_place) lowering.values[sum.value].in_place_of = value;
    Act(Reshard{{.axis = 1, .kind = ReshardKind::kAllReduce}}, "sum", Pass::kBackward, {{value, {kR, kP}}}, {sum});
    return sum;
  }
  std::vector<std::string> Hidden() {
    EXPECT_TRUE(HideTransfers(lowering).ok());
    return Actions(lowering);
  }
};

constexpr char kInput2[] = "backward fc2: -> fc2.dx(R,P)", kSum2[] = "all_reduce/1 sum: fc2.dx(R,P) -> fc2.dx.sum(R,R)",
               kInput1[] = "backward fc1: -> fc1.dx(R,P)", kSum1[] = "all_reduce/1 sum: fc1.dx(R,P) -> fc1.dx.sum(R,R)",
               kWeights2[] = "backward fc2:", kWeights1[] = "backward fc1:";

TEST(HideTransfers, AWeightGradientIsMadeWhileTheSumOfTheInputsGradientMoves) {
  HideCase c;
  c.Weights("fc2");
  const ValueId dx = c.Sum(c.Input("fc2"));
  c.BackwardOf("relu", {{D(Y()), dx, {kR, kR}}});
  EXPECT_THAT(c.Hidden(), ElementsAre(kInput2, kSum2, kWeights2, "backward relu: fc2.dx.sum(R,R)"));
}

TEST(HideTransfers, EachTransferHidesBehindTheGradientNearestBeforeIt) {
  HideCase c;
  c.Weights("fc2");
  c.Weights("fc1");
  c.Sum(c.Input("fc2"));
  c.Weights("fc2");
  c.Sum(c.Input("fc1"));
  EXPECT_THAT(c.Hidden(), ElementsAre(kWeights2, kInput2, kSum2, kWeights1, kInput1, kSum1, kWeights2));
}

// The second transfer has nothing of its own: what the first one has stays there.
TEST(HideTransfers, OneGradientHidesOneTransfer) {
  HideCase c;
  c.Weights("fc2");
  const ValueId dx2 = c.Input("fc2"), dx1 = c.Input("fc1");
  c.Sum(dx2);
  c.Sum(dx1);
  EXPECT_THAT(c.Hidden(), ElementsAre(kInput2, kInput1, kSum2, kWeights2, kSum1));
}

TEST(HideTransfers, AGradientThatWaitsForOneTransferHidesTheNext) {
  HideCase c;
  const ValueId dy = c.Sum(c.Input("fc2"));
  c.Weights("fc1", dy);
  c.Sum(c.Input("fc1"));
  EXPECT_THAT(c.Hidden(), ElementsAre(kInput2, kSum2, kInput1, kSum1, "backward fc1: fc2.dx.sum(R,R)"));
}

TEST(HideTransfers, AGradientThatMovesIsMadeBefore) {
  HideCase c;
  c.Sum(c.Weights("fc2"));
  EXPECT_THAT(c.Hidden(), ElementsAre(kWeights2, "all_reduce/1 sum: -> fc2.w.sum(R,R)"));
}

TEST(HideTransfers, ASumThatTakesTheMemoryOfWhatIsReadComesAfterItsReader) {
  for (const bool in_place : {true, false}) {
    HideCase c;
    const ValueId dy = c.Add("dy", {8, 6}, {kR, kR});
    c.Weights("fc2", dy);
    c.Sum(dy, in_place);
    const char *weights = "backward fc2: dy(R,R)", *sum = "all_reduce/1 sum: dy(R,P) -> dy.sum(R,R)";
    if (in_place) {
      EXPECT_THAT(c.Hidden(), ElementsAre(weights, sum));
    } else {
      EXPECT_THAT(c.Hidden(), ElementsAre(sum, weights));
    }
  }
}

}  // namespace
}  // namespace colonnade::partition
