#include "engine/fair_share.h"

#include <limits>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

TEST(FairShare, FlowsThatAreAlikeEndTogether) {
  FairShare share({3});
  for (int owner = 0; owner < 3; ++owner) share.Start(0, owner, owner == 2 ? 5 : 2, kAny, {0});
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
  share.Start(0, 0, 2, kAny, {0});
  share.Start(0, 1, 2, kAny, {0});
  EXPECT_DOUBLE_EQ(share.NextEnd(), 1);
  EXPECT_EQ(share.EndNext(1), 0);
  share.Start(1, 2, 8, kAny, {0});
  EXPECT_EQ(share.NextEnd(), 1);
  EXPECT_EQ(share.EndNext(1), 1);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 3);
}

// The first two share resource 0 and get 1/2 each; the third has what the second leaves of resource 1; the last could have
// more than its own bound.
TEST(FairShare, TheTightestBoundFixesTheRatesOfAllThatHaveIt) {
  FairShare share({1, 2, 9});
  share.Start(0, 0, 1, kAny, {0});
  share.Start(0, 1, 10, kAny, {0, 1});
  share.Start(0, 2, 3, kAny, {1});
  share.Start(0, 3, 1, 0.5, {2});
  EXPECT_DOUBLE_EQ(share.NextEnd(), 2);
  for (int owner : {0, 2, 3}) EXPECT_EQ(share.EndNext(2), owner);
  EXPECT_DOUBLE_EQ(share.NextEnd(), 2 + 9);
}

}  // namespace
}  // namespace colonnade::engine
