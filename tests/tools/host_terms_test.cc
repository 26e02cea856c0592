#include "tools/host_terms.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

// Of three networks on one to three devices, with two batches.
std::vector<HostStep> StepsThatTake(const HostTerms& terms, double noise, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error;
  std::vector<HostStep> steps;
  for (double tasks_of_network : {40, 90, 110}) {
    for (double devices : {1, 2, 3}) {
      for (double images : {48, 96}) {
        HostStep step{devices, images, devices * tasks_of_network};
        const double seconds =
            terms.step_sec + terms.sec_per_task * step.tasks + terms.sec_per_device * devices + terms.sec_per_image * images;
        step.seconds = seconds * (1 + noise * error(random));
        steps.push_back(step);
      }
    }
  }
  return steps;
}

HostTerms TermsOf(const std::vector<HostStep>& steps) { return FitHostTerms(steps).terms; }

TEST(FitHostTerms, FindsAllTermsOfStepsThatTellThemApart) {
  const HostTerms terms{.step_sec = 2e-4, .sec_per_task = 1e-6, .sec_per_device = 5e-5, .sec_per_image = 1e-6};
  const HostTerms found = TermsOf(StepsThatTake(terms, /*noise=*/0));
  EXPECT_NEAR(found.step_sec, 2e-4, 1e-8);
  EXPECT_NEAR(found.sec_per_task, 1e-6, 1e-10);
  EXPECT_NEAR(found.sec_per_device, 5e-5, 1e-8);
  EXPECT_NEAR(found.sec_per_image, 1e-6, 1e-10);
}

TEST(FitHostTerms, WritesNoTermThatNoiseMayBe) {
  int wrong = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const HostTerms found = TermsOf(StepsThatTake({.step_sec = 2e-4, .sec_per_task = 2e-6}, /*noise=*/0.05, seed));
    EXPECT_NEAR(found.sec_per_task, 2e-6, 4e-7);
    wrong += found.sec_per_device > 0 || found.sec_per_image > 0;
  }
  EXPECT_LE(wrong, 2) << "of 100";
}

// Two standard errors hold the true term 19 times of 20; a tenth of that would hold it three times of 20.
TEST(FitHostTerms, SaysHowSureItsTermsAre) {
  int right = 0, within_a_tenth = 0;
  constexpr double kPerTask = 2e-6;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const HostFit fit = FitHostTerms(StepsThatTake({.step_sec = 2e-4, .sec_per_task = kPerTask}, /*noise=*/0.05, seed));
    const double error = std::abs(fit.terms.sec_per_task - kPerTask) / fit.standard_errors.sec_per_task;
    right += error < 2;
    within_a_tenth += error < 0.2;
    EXPECT_EQ(fit.standard_errors.sec_per_device > 0, fit.terms.sec_per_device > 0);
  }
  EXPECT_GE(right, 180) << "of 200";
  EXPECT_LE(within_a_tenth, 60) << "of 200";
}

// Programs with 50 tasks on each device: what a device adds is what 50 tasks add.
TEST(FitHostTerms, GivesToTasksWhatDevicesExplainAsWell) {
  std::vector<HostStep> steps;
  for (double devices : {1, 2, 3, 4}) steps.push_back({devices, 64, 50 * devices, 1e-4 + 5e-5 * devices});
  const HostTerms found = TermsOf(steps);
  EXPECT_NEAR(found.sec_per_task, 1e-6, 1e-9);
  EXPECT_NEAR(found.step_sec, 1e-4, 1e-7) << "images are alike, so that what they add is a step's";
  EXPECT_EQ(found.sec_per_device, 0);
  EXPECT_EQ(found.sec_per_image, 0);
}

TEST(FitHostTerms, AStepOfNoTimeSaysNothing) {
  std::vector<HostStep> steps = {{1, 64, 50, 0}};
  EXPECT_EQ(TermsOf(steps).sec_per_task, 0);
  steps.push_back({1, 64, 50, 1e-4});
  EXPECT_DOUBLE_EQ(TermsOf(steps).sec_per_task, 2e-6);
}

}  // namespace
}  // namespace colonnade::tools
