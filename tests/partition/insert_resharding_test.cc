#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct PlacedCase : LoweringCase {
  PlacedCase() : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 2, 2, {kBatch, kReplicate})) {}
  // A value that a layer's forward (or backward) makes as `placement` says.
  ValueId Made(const std::string& layer, const std::string& name, TensorPlacement placement, bool backward = false) {
    const ValueId value = Add(name, {8, 6}, std::move(placement));
    backward ? BackwardOf(layer, {{D(X()), value}}) : ForwardOf(layer, {{Y(), value}});
    return value;
  }
};

TEST(InsertResharding, WhatLiesAsNeededIsNotMoved) {
  PlacedCase c;
  const ValueId y = c.Made("fc1", "y", {kS0, kS1});
  c.ForwardOf("relu", {{X(), y, {kS0, kS1}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: -> y(S0,S1)", "forward relu: y(S0,S1)"));
}

TEST(InsertResharding, ReadersOfOneNeedShareOneTransfer) {
  PlacedCase c;
  const ValueId y = c.Made("fc1", "y", {kS0, kS1});
  c.ForwardOf("relu", {{X(), y, {kS0, kR}}});
  c.ForwardOf("fc2", {{X(), y, {kS0, kR}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc1: -> y(S0,S1)", "all_gather/1 relu: y(S0,S1) -> y@(split(0), replicated)(S0,R)",
                          "forward relu: y@(split(0), replicated)(S0,R)", "forward fc2: y@(split(0), replicated)(S0,R)"));
}

TEST(InsertResharding, AnActivationMovesForItsReaderAndAGradientForItsMaker) {
  PlacedCase c;
  const ValueId y = c.Made("fc1", "y", {kS0, kS1}), dx = c.Made("fc2", "dx", {kS0, kP}, /*backward=*/true);
  c.ForwardOf("relu", {{X(), y, {kS0, kR}}});
  c.BackwardOf("relu", {{D(Y()), dx, {kS0, kS1}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  ASSERT_EQ(c.lowering.actions.size(), 6u);
  EXPECT_EQ(Actions(c.lowering)[4], "reduce_scatter/1 fc2: dx(S0,P) -> dx@(split(0), split(1))(S0,S1)");
  EXPECT_EQ(c.lowering.actions[2].provenance, (program::Provenance{"relu", Pass::kForward}));
  EXPECT_EQ(c.lowering.actions[4].provenance, (program::Provenance{"fc2", Pass::kBackward}));
}

// Who reads the summand after the sum was made in its place reads the sum.
TEST(InsertResharding, AnAllReduceIsDoneInPlaceOnceForAllReaders) {
  PlacedCase c;
  const ValueId z = c.Made("fc1", "z", {kS0, kP});
  c.ForwardOf("relu", {{X(), z, {kS0, kR}}});
  c.ForwardOf("fc2", {{X(), z, {kS0, kS1}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc1: -> z(S0,P)", "all_reduce/1 relu: z(S0,P) -> z@(split(0), replicated)(S0,R)",
                          "forward relu: z@(split(0), replicated)(S0,R)",
                          "slice/1 fc2: z@(split(0), replicated)(S0,R) -> z@(split(0), split(1))(S0,S1)",
                          "forward fc2: z@(split(0), split(1))(S0,S1)"));
  EXPECT_EQ(c.lowering.value(c.lowering.actions[1].outputs[0]).in_place_of, z);
  EXPECT_FALSE(c.lowering.value(c.lowering.actions[3].outputs[0]).in_place_of.valid());
}

TEST(InsertResharding, AHostInputIsLoadedOnceInEachPlacementThatIsNeeded) {
  PlacedCase c;
  const ValueId x = c.Add("images", {8, 4});
  c.lowering.values[x.value].role = HostInputPart{};
  c.ForwardOf("fc1", {{X(), x, {kS0, kR}}});
  c.ForwardOf("relu", {{X(), x, {kS0, kS1}}});
  c.BackwardOf("fc1", {{X(), x, {kS0, kR}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  ASSERT_THAT(Actions(c.lowering),
              ElementsAre("load images: -> images(S0,R)", "forward fc1: images(S0,R)", "load images: -> images(S0,S1)",
                          "forward relu: images(S0,S1)", "backward fc1: images(S0,R)"));
  EXPECT_EQ(c.lowering.actions[0].outputs[0], c.lowering.actions[4].inputs[0].value);
}

TEST(InsertResharding, RefusesWhatWouldHaveToBecomePartial) {
  PlacedCase c;
  const ValueId y = c.Made("fc1", "y", {kS0, kR});
  c.ForwardOf("relu", {{X(), y, {kS0, kP}}});
  const absl::Status status = InsertResharding(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("y is not as relu needs it"));
}

TEST(InsertResharding, TwoAxesMoveOneAfterTheOther) {
  PlacedCase c;
  const ValueId y = c.Made("fc1", "y", {kS0, kS1});
  c.ForwardOf("relu", {{X(), y, {kR, kR}}});
  ASSERT_TRUE(InsertResharding(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward fc1: -> y(S0,S1)", "all_gather/0 relu: y(S0,S1) -> y@(replicated, split(1))(R,S1)",
                          "all_gather/1 relu: y@(replicated, split(1))(R,S1) -> y@(replicated, replicated)(R,R)",
                          "forward relu: y@(replicated, replicated)(R,R)"));
}

}  // namespace
}  // namespace colonnade::partition
