// Pictures in memory, as a Pipeline delivers them.
#include "data/memory_set.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::data {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr AugmentOptions kShifted{.cropping = Cropping::kPadded, .pad = 1};

std::unique_ptr<Pipeline> Open(std::shared_ptr<const SampleSet> set, PipelineOptions options) {
  absl::StatusOr<std::unique_ptr<Pipeline>> pipeline = Pipeline::Create(std::move(set), std::move(options));
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

std::unique_ptr<Pipeline> Open(ImageSet set, PipelineOptions options) {
  return Open(*MemorySet::Create(std::move(set)), std::move(options));
}

std::string WhyRefused(ImageSet set, std::vector<std::string> names = {}) {
  const absl::Status status = MemorySet::Create(std::move(set), std::move(names)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

std::vector<uint8_t> ReadImages(Pipeline& pipeline, int64_t position, int64_t count) {
  std::vector<uint8_t> images(count * program::ElementCount(pipeline.sample_shape()));
  std::vector<int32_t> labels(count);
  const absl::Status status = pipeline.Read(position, absl::MakeSpan(images), absl::MakeSpan(labels));
  EXPECT_TRUE(status.ok()) << status;
  return images;
}

// Pictures of 5x5 that are black but for the middle.
ImageSet Dots(int count) {
  ImageSet set{.sample_shape = {1, 5, 5}, .pixels = std::vector<uint8_t>(25 * count), .classes = 1};
  for (int i = 0; i < count; ++i) set.pixels[i * 25 + 12] = 255;
  set.labels.assign(count, 0);
  return set;
}

// Where the dots are, by picture.
std::set<int64_t> PlacesOfDots(const std::vector<uint8_t>& images) {
  std::set<int64_t> places;
  for (auto image = images.begin(); image != images.end(); image += 25) {
    places.insert(std::max_element(image, image + 25) - image);
  }
  return places;
}

const std::set<int64_t> kMiddles = {6, 7, 8, 11, 12, 13, 16, 17, 18};

TEST(MemorySet, ShiftsMoveByAtMostAPixelAndDependOnTheEpoch) {
  const auto dot = Open(Dots(1), {.augment = kShifted});
  EXPECT_EQ(PlacesOfDots(ReadImages(*dot, 0, 200)), kMiddles);
}

TEST(MemorySet, SamplesOfOneEpochShiftEachByItself) {
  const auto dots = Open(Dots(200), {.augment = kShifted});
  EXPECT_EQ(PlacesOfDots(ReadImages(*dots, 0, 200)), kMiddles);
}

// The shift belongs to sample and epoch: another cut of the stream, or a jump in it, moves the same sample alike.
TEST(MemorySet, ShiftsDoNotDependOnHowTheStreamIsRead) {
  const auto open = [] { return Open(*OpenSamples("digits", SplitOf::kTest, {}), {.seed = 3, .augment = kShifted}); };
  const auto whole = open(), jumping = open();
  const std::vector<uint8_t> expected = ReadImages(*whole, 0, 400);  // 360 of the first epoch, 40 of the second
  for (int64_t at : {399, 0, 361, 17, 359, 360}) {
    const std::vector<uint8_t> image = ReadImages(*jumping, at, 1);
    EXPECT_TRUE(std::equal(image.begin(), image.end(), expected.begin() + at * 64)) << "position " << at;
  }
}

// Zeros are pixels like others: the scaling is that of the images without them.
TEST(MemorySet, PaddingIsOfPixelsOfValueZero) {
  const auto alone = Open(*OpenSamples("digits", SplitOf::kTest, {}), {});
  const auto padded = Open(*OpenSamples("digits", SplitOf::kTest, {.pad = 2}), {.border = 2});
  EXPECT_EQ(padded->scaling(), alone->scaling());
  const std::vector<uint8_t> image = ReadImages(*padded, 0, 1);
  ASSERT_EQ(image.size(), 12u * 12u);
  for (size_t i = 0; i < image.size(); ++i) {
    const size_t y = i / 12, x = i % 12;
    const bool is_inside = y >= 2 && y < 10 && x >= 2 && x < 10;
    if (!is_inside) {
      EXPECT_EQ(image[i], 0) << y << " " << x;
    }
  }
}

TEST(MemorySet, ChannelsAreInnermost) {
  const ImageSet set{.sample_shape = {3, 1, 2}, .pixels = {1, 2, 3, 4, 5, 6}, .labels = {0}, .classes = 1};
  EXPECT_THAT(ReadImages(*Open(set, {}), 0, 1), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(MemorySet, MeanAndDeviationScaleEachChannel) {
  const ImageSet set{.sample_shape = {3, 1, 1}, .pixels = {51, 102, 0}, .labels = {0}, .classes = 1};
  const auto pipeline = Open(set, {.moments = {.mean = {0.1, 0.2, 0}, .std = {0.5, 0.25, 1}}});
  const program::PixelScaling& scaling = pipeline->scaling();
  EXPECT_THAT(scaling.scale[0] * 51 + scaling.shift[0], DoubleEq((0.2 - 0.1) / 0.5));
  EXPECT_THAT(scaling.scale[1] * 102 + scaling.shift[1], DoubleEq((0.4 - 0.2) / 0.25));
  for (const Moments& wrong : {Moments{.mean = {1, 2}}, Moments{.std = {0}}}) {
    EXPECT_EQ(Pipeline::Create(*MemorySet::Create(set), {.moments = wrong}).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

// Extents whose product overflows to the number of pixels, too.
TEST(MemorySet, TakesOneImageForEachLabelAlone) {
  const ImageSet pair{.name = "pair", .sample_shape = {3, 1, 2}, .pixels = std::vector<uint8_t>(12), .labels = {0, 1}};
  EXPECT_TRUE(MemorySet::Create(pair).ok());
  for (const size_t found : {0, 6, 11, 13, 24}) {
    ImageSet wrong = pair;
    wrong.pixels.resize(found);
    EXPECT_EQ(WhyRefused(wrong),
              absl::StrFormat("pair: expected 2 images [3,1,2], one for each label, found %d pixels", found));
  }
  EXPECT_EQ(WhyRefused({.sample_shape = {1, 1, 1}, .pixels = {1}}),
            "images: expected 0 images [1,1,1], one for each label, found 1 pixel");
  constexpr int64_t kLarge = int64_t{1} << 32;
  EXPECT_THAT(WhyRefused({.sample_shape = {1, kLarge, kLarge}, .labels = {0}}), HasSubstr("found 0 pixels"));
}

TEST(MemorySet, TakesShapesOfImagesAlone) {
  for (const program::Shape& shape : std::vector<program::Shape>{{}, {4}, {2, 2}, {1, 1, 2, 2}, {1, 0, 4}, {-1, -2, 2}}) {
    EXPECT_EQ(WhyRefused({.name = "odd", .sample_shape = shape, .pixels = {1, 2, 3, 4}, .labels = {0}}),
              "odd: expected images [C,H,W] with extents of at least 1, found " + program::ToString(shape));
  }
}

TEST(MemorySet, TakesLabelsOfItsClassesAlone) {
  ImageSet set{.name = "two", .sample_shape = {1, 1, 1}, .pixels = {1, 2}, .labels = {0, -1}};
  EXPECT_EQ(WhyRefused(set), "two: sample 1: expected a label from 0 and below 100000 classes, found -1");
  set.labels = {2, 0};
  EXPECT_THAT(WhyRefused(set, {"ant", "bee"}), HasSubstr("sample 0: expected a label from 0 and below 2 classes, found 2"));
  set.classes = 2;
  EXPECT_THAT(WhyRefused(set), HasSubstr("sample 0: expected a label from 0 and below 2 classes, found 2"));
}

TEST(MemorySet, HasANameForEachClass) {
  ImageSet set{.name = "one", .sample_shape = {1, 1, 1}, .pixels = {1}, .labels = {1}};
  EXPECT_THAT((*MemorySet::Create(set))->class_names(), ElementsAre("0", "1"));
  EXPECT_THAT((*MemorySet::Create(set, {"ant", "bee", "cat"}))->class_names(), ElementsAre("ant", "bee", "cat"));
  set.classes = 3;
  EXPECT_THAT((*MemorySet::Create(set))->class_names(), ElementsAre("0", "1", "2"));
  for (const size_t count : {1, 2, 4}) {
    EXPECT_EQ(WhyRefused(set, std::vector<std::string>(count, "ant")),
              absl::StrFormat("one: expected a name for each class or none, found %d name%s of 3 classes", count,
                              count == 1 ? "" : "s"));
  }
  set.classes = -1;
  EXPECT_THAT(WhyRefused(set), HasSubstr("classes: expected 0 or more, found -1"));
}

}  // namespace
}  // namespace colonnade::data
