// Percentiles, worked out by hand.
#include "engine/statistics.h"

#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

TEST(Percentile, IsLinearBetweenTheSortedValues) {
  const std::vector<double> values = {40, 10, 20};
  EXPECT_EQ(Quantile(values, 0), 10);
  EXPECT_EQ(Quantile(values, 0.25), 15);
  EXPECT_EQ(Quantile(values, 0.5), 20);
  EXPECT_EQ(Quantile(values, 0.75), 30);
  EXPECT_EQ(Quantile(values, 1), 40);
}

TEST(Percentile, OfOneValueIsThatAndOfNothingIs0) {
  EXPECT_EQ(Quantile({3}, 0.99), 3);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(Median({5, 1, 2}), 2);
  EXPECT_EQ(Median({8, 1, 4, 2}), 3);
}

TEST(FactorOfMiddleHalf, IsTheRootOfTheQuartilesRatio) {
  EXPECT_EQ(FactorOfMiddleHalf({9, 1, 4, 100, 0.5}), 3);  // quartiles 1 and 9
  EXPECT_EQ(FactorOfMiddleHalf({7, 7, 7}), 1);
  EXPECT_EQ(FactorOfMiddleHalf({0, 0, 5, 6}), 0);
  EXPECT_EQ(FactorOfMiddleHalf({}), 0);
}

TEST(TrimmedMean, LeavesOutTheLongestTenth) {
  EXPECT_EQ(TrimmedMean({}), 0);
  EXPECT_EQ(TrimmedMean(std::vector<double>{1, 2, 9}), 4) << "a tenth of fewer than ten is none";
  const std::vector<double> of_twenty = {3, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 50, 1, 1, 1, 1, 1, 35};
  EXPECT_EQ(TrimmedMean(of_twenty), 3);
  EXPECT_EQ(Mean(of_twenty), 10.2);
}

TEST(SpreadOf, IsTheRangeOverTheMedian) { EXPECT_EQ(SpreadOf({4, 2, 8}), 1.5); }

}  // namespace
}  // namespace colonnade::engine
