// Learning rates against values that are not made by the code under test.

#include "engine/learning_rate.h"

#include <limits>
#include <string>
#include <tuple>
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
  EXPECT_DOUBLE_EQ(LearningRateAt({.shape = Shape::kStep, .base = 0.5, .factor = 0.1, .every = 10}, 9), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt({.shape = Shape::kStep, .base = 0.5, .factor = 0.1, .every = 10}, 20), 0.5 * 0.01);
}

// The values of the next four are those of PyTorch 2.15's MultiStepLR([3, 5], 0.1), PolynomialLR(8, 2), CosineAnnealingLR(8)
// and OneCycleLR(0.4, 20), in double.
TEST(LearningRate, MultiStep) {
  ExpectRates({.shape = Shape::kMultiStep, .base = 0.4, .factor = 0.1, .milestones = {3, 5}},
              {0.4, 0.4, 0.4, 0.04, 0.04, 0.004, 0.004});
}

TEST(LearningRate, PolynomialStaysAtItsEnd) {
  ExpectRates({.shape = Shape::kPolynomial, .base = 0.4, .power = 2, .steps = 8},
              {0.4, 0.30625, 0.225, 0.15625, 0.1, 0.05625, 0.025, 0.00625, 0, 0});
}

TEST(LearningRate, Cosine) {
  ExpectRates({.shape = Shape::kCosine, .base = 0.4, .steps = 8},
              {0.4, 0.38477590650225735, 0.34142135623730951, 0.27653668647301799, 0.2, 0.12346331352698206,
               0.058578643762690508, 0.015224093497742654, 0, 0});
}

TEST(LearningRate, OneCycle) {
  ExpectRates({.shape = Shape::kOneCycle, .base = 0.4, .steps = 20}, {0.016,
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
  ExpectRates({.shape = Shape::kOneCycle, .base = 0.4, .steps = 2}, {0.32469826157990522});
}

TEST(LearningRate, WhatEndsWithTheRunNeedsItsLength) {
  for (Shape shape : {Shape::kPolynomial, Shape::kCosine, Shape::kOneCycle}) {
    EXPECT_FALSE(CheckPolicy({.shape = shape}).ok());
    EXPECT_TRUE(CheckPolicy({.shape = shape, .steps = 1}).ok());
  }
  EXPECT_FALSE(CheckPolicy({.shape = Shape::kCosine, .steps = 5, .warm_up = 5}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kCosine, .steps = 6, .warm_up = 5}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kStep}).ok());
  EXPECT_FALSE(CheckPolicy({.shape = Shape::kStep, .every = 0}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kMultiStep, .milestones = {2, 2, 5}}).ok());
  EXPECT_FALSE(CheckPolicy({.shape = Shape::kMultiStep, .milestones = {5, 2}}).ok());
  EXPECT_TRUE(CheckPolicy({.warm_up = 0}).ok());
  EXPECT_FALSE(CheckPolicy({.warm_up = -1}).ok());
  EXPECT_TRUE(CheckPolicy({.shape = Shape::kConstant, .every = 0}).ok()) << "nothing asks for it";
}

TEST(LearningRate, IsOfNumbersThatAreRates) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const auto said = [](const LearningRatePolicy& policy) { return std::string(CheckPolicy(policy).message()); };
  EXPECT_EQ(said({.base = -0.5}), "learning rate: expected LearningRatePolicy::base from 0 to 3.40282e+38, found -0.5");
  EXPECT_EQ(said({.shape = Shape::kStep, .factor = 0}),
            "learning rate: expected LearningRatePolicy::factor above 0, found 0");
  EXPECT_EQ(said({.shape = Shape::kPolynomial, .power = -2, .steps = 5}),
            "learning rate: expected LearningRatePolicy::power above 0, found -2");
  EXPECT_TRUE(CheckPolicy({.base = 0}).ok());
  EXPECT_TRUE(CheckPolicy({.factor = 0, .power = 0}).ok()) << "nothing asks for them";
  for (double number : {-1.0, kNan, kInfinity}) {
    EXPECT_FALSE(CheckPolicy({.base = number}).ok()) << number;
    EXPECT_FALSE(CheckPolicy({.shape = Shape::kStep, .factor = number}).ok()) << number;
    EXPECT_FALSE(CheckPolicy({.shape = Shape::kMultiStep, .factor = number, .milestones = {2}}).ok()) << number;
    EXPECT_FALSE(CheckPolicy({.shape = Shape::kPolynomial, .power = number, .steps = 5}).ok()) << number;
  }
  EXPECT_FALSE(CheckPolicy({.base = 1e39}).ok());
}

TEST(LearningRate, WarmUpGrowsToTheRateAndWhatEndsEndsWithTheRun) {
  ExpectRates({.base = 0.4, .warm_up = 4}, {0.1, 0.2, 0.3, 0.4, 0.4});
  // Steps are counted from the beginning, as epochs of papers are.
  ExpectRates({.shape = Shape::kStep, .base = 0.4, .factor = 0.5, .every = 2, .warm_up = 4}, {0.1, 0.2, 0.15, 0.2, 0.1});
  ExpectRates({.shape = Shape::kPolynomial, .base = 0.4, .steps = 6, .warm_up = 2}, {0.2, 0.4, 0.4, 0.3, 0.2, 0.1, 0});
}

TEST(ParseLearningRatePolicy, ReadsTheShapeAndWhatItNeeds) {
  const auto read = [](const char* text) { return *ParseLearningRatePolicy(text); };
  EXPECT_EQ(read("constant").shape, Shape::kConstant);
  EXPECT_EQ(read("cosine").shape, Shape::kCosine);
  EXPECT_EQ(read("onecycle").shape, Shape::kOneCycle);
  EXPECT_EQ(read("poly:2.5").shape, Shape::kPolynomial);
  EXPECT_EQ(read("poly:2.5").power, 2.5);
  const LearningRatePolicy step = read("step:30,0.2"), milestones = read("multistep:3,3,50,0.5");
  EXPECT_EQ(std::tuple(step.shape, step.every, step.factor), std::tuple(Shape::kStep, 30, 0.2));
  EXPECT_EQ(milestones.shape, Shape::kMultiStep);
  EXPECT_EQ(milestones.milestones, (std::vector<int64_t>{3, 3, 50}));
  EXPECT_EQ(milestones.factor, 0.5);
  for (const char* other : {"", "cosin", "step", "step:5", "step:5,6,0.1", "step:0,0.1", "multistep:5,3,0.1", "poly:0"}) {
    EXPECT_FALSE(ParseLearningRatePolicy(other).has_value()) << other;
  }
}

TEST(ParseLearningRatePolicy, TakesTheLeastThereIs) {
  EXPECT_EQ(ParseLearningRatePolicy("step:1,0.5")->every, 1);
  EXPECT_EQ(ParseLearningRatePolicy("multistep:1,0.5")->milestones, (std::vector<int64_t>{1}));
}

TEST(ParseLearningRatePolicy, TakesNothingWhereAWordIsNotWhollyANumberOrOneTooMany) {
  for (const char* other : {"step:3x,0.1", "step:99999999999999999999,0.1", "step:3,0.1x", "multistep:0.1",
                            "multistep:3x,0.1", "multistep:3,0.1x", "poly:2x", "poly:inf", "poly:1,2", "step,5:0.1",
                            "step:5:0.1", "multistep:5:6:0.1", "constant:"}) {
    EXPECT_FALSE(ParseLearningRatePolicy(other).has_value()) << other;
  }
}

// Neither the length that kCosine wants nor the warm-up counts.
TEST(LearningRate, OfAFunctionIsWhatItReturnsWhateverElseThePolicySays) {
  const LearningRatePolicy policy{.shape = Shape::kCosine, .base = 0.5, .warm_up = 4, .function = [](int64_t step) {
                                    return 1.0 / static_cast<double>(step + 1);
                                  }};
  EXPECT_TRUE(CheckPolicy(policy).ok());
  ExpectRates(policy, {1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5});
}

}  // namespace
}  // namespace colonnade::engine
