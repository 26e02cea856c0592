// Distances and bounds by their formulae, on numbers that one can work out.
#include "tools/verify_bounds.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;

TEST(Distance, IsRelativeToTheSecondOrToTheLeastNorm) {
  EXPECT_DOUBLE_EQ(Distance({3, 4}, {3, 0}), 4.0 / 3);
  EXPECT_DOUBLE_EQ(Distance({3, 4}, {3, 0}, /*least=*/2), 4.0 / 3);
  EXPECT_DOUBLE_EQ(Distance({3, 4}, {3, 0}, /*least=*/8), 0.5);
  EXPECT_DOUBLE_EQ(Distance({3, 4}, {0, 0}), 5) << "of nothing: the norm itself";
  EXPECT_DOUBLE_EQ(Distance({0, 0}, {0, 0}), 0);
}

TEST(Distance, OfNormsIsThatOfAllGradientsTogether) {
  EXPECT_DOUBLE_EQ(DistanceOfNorms({{"w", {3}}, {"b", {4}}}, {{"w", {0, 2}}, {"b", {0}}}), 1.5);
}

TEST(Distance, OfASmallLossIsThatOfOneOfATenth) {
  EXPECT_DOUBLE_EQ(LossDistance(2.5, 2), 0.25);
  EXPECT_DOUBLE_EQ(LossDistance(0.02, 0.01), 0.1);
}

TEST(IsClipped, OnlyAboveABoundThatThereIs) {
  const Gradients gradients = {{"w", {3}}, {"b", {4}}};
  EXPECT_FALSE(IsClipped(gradients, 0));
  EXPECT_FALSE(IsClipped(gradients, 5));
  EXPECT_TRUE(IsClipped(gradients, 4.9));
}

TEST(TwoRoundings, AreMuchOfASmallChange) {
  EXPECT_DOUBLE_EQ(TwoRoundings({8, 0}, {0, std::ldexp(1, -20)}), 1);
  EXPECT_DOUBLE_EQ(TwoRoundings({8, 0}, {0, 0}), 0);
}

TEST(LargestStepOfAdamW, IsOfTheLargestRateAndAtLeastThat) {
  partition::UpdateOptions update{.optimizer = program::AdamW{.beta1 = 0.9, .beta2 = 0.99}};
  EXPECT_NEAR(LargestStepOfAdamW(update, 0.5), 0.5, 1e-12);
  update.optimizer = program::AdamW{.beta1 = 0.9, .beta2 = 0.9999};
  EXPECT_NEAR(LargestStepOfAdamW(update, 0.5), 5, 1e-9);
  update.layer_rates = {{"fc1", 0.1}, {"fc2", 3}};
  EXPECT_NEAR(LargestStepOfAdamW(update, 0.5), 15, 1e-9);
}

TEST(NormOfUnsureSteps, CountsElementsByThePartByWhichTheirGradientsDiffer) {
  const std::vector<double> change = {0.5, 1, 3}, gradient = {1, 1e-9, 2};
  const std::vector<double> other_change = {0.6, -9, 7}, other_gradient = {1.1, -1e-9, 2};
  const double few_digits = 1.1 * 4 * 0.1, roundings_alone = 1 + (1 + 2);
  EXPECT_NEAR(NormOfUnsureSteps({change, gradient}, {other_change, other_gradient}, /*largest_step=*/2),
              std::hypot(few_digits, roundings_alone), 1e-12);
}

TEST(NormOfUnsureSteps, WhereMomentumCancelsTheGradientAStepIsAsInexactAsALargeOne) {
  const std::vector<double> change = {1e-6}, gradient = {1}, other_change = {2e-3}, other_gradient = {1.001};
  EXPECT_NEAR(NormOfUnsureSteps({change, gradient}, {other_change, other_gradient}, /*largest_step=*/10), 10 * 0.001, 1e-12);
}

TEST(Neighbours, AreOffByUpToSomeBitsWhereThereAreGradients) {
  const std::vector<engine::NamedTensor> parameters = {{"w", {2}, {1, -4}}, {"mean", {1}, {3}}};
  Neighbours neighbours(parameters, {{"w", {0, 0}}}, /*bits=*/0.25, /*seed=*/1);
  std::set<double> drawn;
  while (!neighbours.AllDrawn()) {
    const std::vector<engine::NamedTensor> off = neighbours.Next();
    EXPECT_NEAR(off[0].values[0], 1, 0.25);
    EXPECT_NEAR(off[0].values[1], -4, 1);
    EXPECT_THAT(off[1].values, ElementsAre(3));
    drawn.insert(off[0].values[0]);
  }
  EXPECT_EQ(drawn.size(), 16u);
}

}  // namespace
}  // namespace colonnade::tools
