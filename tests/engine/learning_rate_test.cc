// Learning rates against values that are not made by the code under test.

#include "engine/learning_rate.h"

#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

using Shape = LearningRatePolicy::Shape;

void ExpectRates(const LearningRatePolicy& policy, const std::vector<double>& expected) {
  for (size_t t = 0; t < expected.size(); ++t) {
    EXPECT_NEAR(LearningRateAt(policy, static_cast<int64_t>(t)), expected[t], 1e-15) << "step " << t;
  }
}

TEST(LearningRate, StepPolicyMultipliesAfterEveryNSteps) {
  EXPECT_DOUBLE_EQ(LearningRateAt({.base = 0.5}, 1000), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt({.base = 0.5, .factor = 0.1, .every = 10}, 9), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt({.base = 0.5, .factor = 0.1, .every = 10}, 20), 0.5 * 0.01);
}

// The values of the next four are those of PyTorch 2.15's MultiStepLR([3, 5], 0.1), PolynomialLR(8, 2), CosineAnnealingLR(8)
// and OneCycleLR(0.4, 20), in double.
TEST(LearningRate, MultiStep) {
  ExpectRates({.base = 0.4, .factor = 0.1, .shape = Shape::kMultiStep, .milestones = {3, 5}},
              {0.4, 0.4, 0.4, 0.04, 0.04, 0.004, 0.004});
}

TEST(LearningRate, PolynomialStaysAtItsEnd) {
  ExpectRates({.base = 0.4, .shape = Shape::kPolynomial, .power = 2, .steps = 8},
              {0.4, 0.30625, 0.225, 0.15625, 0.1, 0.05625, 0.025, 0.00625, 0, 0});
}

TEST(LearningRate, Cosine) {
  ExpectRates({.base = 0.4, .shape = Shape::kCosine, .steps = 8},
              {0.4, 0.38477590650225735, 0.34142135623730951, 0.27653668647301799, 0.2, 0.12346331352698206,
               0.058578643762690508, 0.015224093497742654, 0, 0});
}

TEST(LearningRate, OneCycle) {
  ExpectRates({.base = 0.4, .shape = Shape::kOneCycle, .steps = 20}, {0.016,
                                                                      0.052668737080010131,
                                                                      0.1486687370800101,
                                                                      0.26733126291998988,
                                                                      0.36333126291998991,
                                                                      0.4,
                                                                      0.39498560249403497,
                                                                      0.38019385280538953,
                                                                      0.35636647102842001,
                                                                      0.32469826157990522,
                                                                      0.28677720071652035,
                                                                      0.24450480877451572,
                                                                      0.2000008,
                                                                      0.15549679122548429,
                                                                      0.11322439928347969,
                                                                      0.075303338420094804,
                                                                      0.043635128971580013,
                                                                      0.019807747194610516,
                                                                      0.005015997505965022,
                                                                      1.6e-06,
                                                                      1.6e-06});
  ExpectRates({.base = 0.4, .shape = Shape::kOneCycle, .steps = 2}, {0.32469826157990522});
}

TEST(LearningRate, WhatEndsWithTheRunNeedsItsLength) {
  using Shape = LearningRatePolicy::Shape;
  for (Shape shape : {Shape::kPolynomial, Shape::kCosine, Shape::kOneCycle}) {
    EXPECT_FALSE(CheckPolicy({.shape = shape}).ok());
    EXPECT_TRUE(CheckPolicy({.shape = shape, .steps = 1}).ok());
  }
  EXPECT_FALSE(CheckPolicy({.shape = Shape::kCosine, .steps = 5, .warm_up = 5}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kCosine, .steps = 6, .warm_up = 5}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kStep}).ok());
}

TEST(LearningRate, WarmUpGrowsToTheRateAndWhatEndsEndsWithTheRun) {
  ExpectRates({.base = 0.4, .warm_up = 4}, {0.1, 0.2, 0.3, 0.4, 0.4});
  // Steps are counted from the beginning, as epochs of papers are.
  ExpectRates({.base = 0.4, .factor = 0.5, .every = 2, .warm_up = 4}, {0.1, 0.2, 0.15, 0.2, 0.1});
  ExpectRates({.base = 0.4, .shape = Shape::kPolynomial, .steps = 6, .warm_up = 2}, {0.2, 0.4, 0.4, 0.3, 0.2, 0.1, 0});
}

}  // namespace
}  // namespace colonnade::engine
