#include "data/moments.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"

namespace colonnade::data {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

// An ImageSet of one channel.
class OneChannelSet : public TestSet {
 public:
  explicit OneChannelSet(ImageSet set) : TestSet(set.size(), set.sample_shape), set_(std::move(set)) {}
  double largest_value() const override { return set_.largest_value; }
  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    const int64_t bytes = program::ElementCount(set_.sample_shape);
    room.assign(reinterpret_cast<const char*>(set_.pixels.data()) + sample * bytes, bytes);
    return StoredImage{.height = set_.sample_shape[1], .width = set_.sample_shape[2], .channels = 1, .bytes = room};
  }

 private:
  ImageSet set_;
};

TEST(Moments, AreThoseOfTheDataSetToTheLastBit) {
  for (int64_t pad : {0, 2}) {
    const ImageSet digits = *OpenDataset("digits", SplitOf::kTrain, {.pad = pad});
    const Moments moments = *MeasureMoments(std::make_shared<OneChannelSet>(digits), {}, {.border = pad, .threads = 2});
    EXPECT_EQ(moments.mean, digits.mean);
    EXPECT_EQ(moments.std, digits.std);
  }
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
