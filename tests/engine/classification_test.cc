#include "engine/classification.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

std::vector<int64_t> LabelsOf(const std::vector<Guess>& guesses) {
  std::vector<int64_t> labels;
  for (const Guess& guess : guesses) labels.push_back(guess.label);
  return labels;
}

TEST(LikeliestClasses, AreTheLargestLogitsWithTheirSoftmax) {
  const std::vector<double> logits = {0, std::log(3.0), std::log(6.0)};
  const std::vector<Guess> guesses = LikeliestClasses(logits, 2);
  EXPECT_THAT(LabelsOf(guesses), ::testing::ElementsAre(2, 1));
  EXPECT_DOUBLE_EQ(guesses[0].probability, 0.6);
  EXPECT_DOUBLE_EQ(guesses[1].probability, 0.3);
}

TEST(LikeliestClasses, OfEquallyLikelyOnesTheLowestLabelIsFirst) {
  EXPECT_THAT(LabelsOf(LikeliestClasses({1.0, 2.0, 2.0, 1.0, 2.0}, 4)), ::testing::ElementsAre(1, 2, 4, 0));
}

TEST(LikeliestClasses, AreAllWhereFewerAreThereThanAskedFor) {
  EXPECT_THAT(LabelsOf(LikeliestClasses({1.0, 2.0}, 5)), ::testing::ElementsAre(1, 0));
  EXPECT_TRUE(LikeliestClasses({}, 5).empty());
}

TEST(LikeliestClasses, LargeLogitsDoNotOverflow) {
  const std::vector<Guess> guesses = LikeliestClasses({1e4, 1e4, -1e4}, 3);
  EXPECT_DOUBLE_EQ(guesses[0].probability, 0.5);
  EXPECT_DOUBLE_EQ(guesses[2].probability, 0);
}

}  // namespace
}  // namespace colonnade::engine
