#include "data/moments.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"

namespace colonnade::data {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(Moments, AreThoseOfAllPixelsButTheBorder) {
  const ImageSet digits = *OpenDataset("digits", SplitOf::kTrain, {});
  double sum = 0, squares = 0;
  for (uint8_t pixel : digits.pixels) {
    sum += pixel / 16.0;
    squares += pixel * pixel / 256.0;
  }
  const double mean = sum / static_cast<double>(digits.pixels.size());
  const double deviation = std::sqrt(squares / static_cast<double>(digits.pixels.size()) - mean * mean);
  for (int64_t pad : {0, 2}) {
    const Moments moments =
        *MeasureMoments(*OpenSamples("digits", SplitOf::kTrain, {.pad = pad}), {}, {.border = pad, .threads = 2});
    EXPECT_THAT(moments.mean, ElementsAre(DoubleNear(mean, 1e-12)));
    EXPECT_THAT(moments.std, ElementsAre(DoubleNear(deviation, 1e-12)));
  }
}

TEST(Moments, ABorderLeavesAPixelAtLeast) {
  const auto status = [](int64_t border) {  // of images of 8 x 8
    return MeasureMoments(*OpenSamples("digits", SplitOf::kTrain, {}), {}, {.border = border}).status();
  };
  EXPECT_TRUE(status(3).ok());
  for (int64_t border : {-1, 4}) {
    EXPECT_EQ(status(border).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status(border).message()), ::testing::HasSubstr("less than half of an image of 8 x 8"));
  }
}

TEST(Moments, OfNoSamplesThereAreNone) {
  const absl::Status status = MeasureMoments(std::make_shared<TestSet>(0), {}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected samples, found none"));
}

TEST(Moments, OneNumberIsThatOfEachChannel) {
  Moments moments{{0.5}, {0.25, 0.5, 1}};
  ASSERT_TRUE(SpreadOverChannels(3, moments).ok());
  EXPECT_THAT(moments.mean, ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(moments.std, ElementsAre(0.25, 0.5, 1));
  for (Moments wrong : {Moments{{1, 2}, {1}}, Moments{{1}, {1, 1}}, Moments{{1}, {0}}, Moments{{}, {1}}}) {
    EXPECT_EQ(SpreadOverChannels(3, wrong).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(Moments, ScalingTakesOffTheMeanAndDividesByTheDeviation) {
  const program::PixelScaling scaling = ScalingOf({{0.25, 0}, {0.5, 2}}, 16);
  EXPECT_THAT(scaling.scale, ElementsAre(DoubleEq(0.125), DoubleEq(1.0 / 32)));
  EXPECT_THAT(scaling.shift, ElementsAre(DoubleEq(-0.5), DoubleEq(0)));
}

}  // namespace
}  // namespace colonnade::data
