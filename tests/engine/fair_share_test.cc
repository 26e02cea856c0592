#include "engine/simulator/fair_share.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

FairShare::Uses On(const std::vector<int>& resources) {
  FairShare::Uses uses;
  for (int resource : resources) uses.push_back({resource});
  return uses;
}

TEST(FairShare, FlowsThatAreAlikeEndTogether) {
  FairShare share({3});
  for (int owner = 0; owner < 3; ++owner) share.Start(0, owner, owner == 2 ? 5 : 2, kAny, On({0}));
  EXPECT_DOUBLE_EQ(share.NextEnd(), 2);
  EXPECT_EQ(share.EndNext(2), 0);
  EXPECT_EQ(share.NextEnd(), 2);
  EXPECT_EQ(share.EndNext(2), 1);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 3) << "3 bytes are left for one flow alone";
  EXPECT_EQ(share.EndNext(3), 2);
  EXPECT_EQ(share.NextEnd(), kAny);
}

// What starts while others end at that time shares with what is left, not with those.
TEST(FairShare, AFlowMayStartBetweenTwoThatEnd) {
  FairShare share({4});
  share.Start(0, 0, 2, kAny, On({0}));
  share.Start(0, 1, 2, kAny, On({0}));
  EXPECT_DOUBLE_EQ(share.NextEnd(), 1);
  EXPECT_EQ(share.EndNext(1), 0);
  share.Start(1, 2, 8, kAny, On({0}));
  EXPECT_EQ(share.NextEnd(), 1);
  EXPECT_EQ(share.EndNext(1), 1);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 3);
}

// The first two share resource 0 and get 1/2 each; the third has what the second leaves of resource 1; the last could have
// more than its own bound.
TEST(FairShare, TheTightestBoundFixesTheRatesOfAllThatHaveIt) {
  FairShare share({1, 2, 9});
  share.Start(0, 0, 1, kAny, On({0}));
  share.Start(0, 1, 10, kAny, On({0, 1}));
  share.Start(0, 2, 3, kAny, On({1}));
  share.Start(0, 3, 1, 0.5, On({2}));
  EXPECT_DOUBLE_EQ(share.NextEnd(), 2);
  for (int owner : {0, 2, 3}) EXPECT_EQ(share.EndNext(2), owner);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 2 + 9);
}

// Of 12 bytes per second a flow that stands for three gets a quarter for each of them, beside one alone.
TEST(FairShare, AFlowMayStandForOthers) {
  FairShare share({12});
  share.Start(0, 0, 3, kAny, {{.resource = 0, .flows = 3}});
  share.Start(0, 1, 6, kAny, On({0}));
  EXPECT_DOUBLE_EQ(share.NextEnd(), 1);
  EXPECT_EQ(share.EndNext(1), 0);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 1.25) << "3 bytes are left, and all of the rate";
}

}  // namespace
}  // namespace colonnade::engine
