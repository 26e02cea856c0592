// At which steps an error curve has a point.

#include "tools/error_curve.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::tools {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

std::vector<double> StepsOfPoints(int64_t steps, int64_t every) {
  constexpr int64_t kBatch = 8, kTrainingDigits = 1437;
  const std::vector<ErrorPoint> points = *ErrorByUpdate("single", 1, steps, every, kBatch);
  std::vector<double> at;
  for (const ErrorPoint& point : points) {
    at.push_back(point.epochs * kTrainingDigits / kBatch);
  }
  return at;
}

TEST(ErrorByUpdate, HasAPointBeforeTheFirstStepAndAfterTheLast) {
  const auto near = [](double step) { return DoubleNear(step, 1e-9); };
  EXPECT_THAT(StepsOfPoints(/*steps=*/4, /*every=*/2), ElementsAre(near(0), near(2), near(4)));
  EXPECT_THAT(StepsOfPoints(/*steps=*/5, /*every=*/2), ElementsAre(near(0), near(2), near(4), near(5)));
}

}  // namespace
}  // namespace colonnade::tools
