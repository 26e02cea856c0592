#include "data/sample_stream.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "data/dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::data {
namespace {

// n images of 2x2 whose first pixel is their number.
ImageSet Numbered(int n) {
  ImageSet set{.name = "numbered", .sample_shape = {1, 2, 2}, .classes = 3, .mean = {0}, .std = {1}};
  for (int i = 0; i < n; ++i) {
    set.pixels.insert(set.pixels.end(), {static_cast<uint8_t>(i), 0, 0, 0});
    set.labels.push_back(i % 3);
  }
  return set;
}

SampleStream Stream(ImageSet set, StreamOptions options) {
  absl::StatusOr<SampleStream> stream = SampleStream::Create(std::move(set), std::move(options));
  EXPECT_TRUE(stream.ok()) << stream.status();
  return *std::move(stream);
}

std::vector<int> ReadNumbers(SampleStream& stream, int64_t position, int64_t count) {
  std::vector<uint8_t> images(count * 4);
  std::vector<int32_t> labels(count);
  EXPECT_TRUE(stream.Read(position, absl::MakeSpan(images), absl::MakeSpan(labels)).ok());
  std::vector<int> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(images[i * 4]);
  return numbers;
}

TEST(SampleStream, AnEpochHasEachSampleOnceInAnOrderOfItsOwn) {
  SampleStream stream = Stream(Numbered(37), {.seed = 5});
  std::set<std::vector<int>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<int> numbers = ReadNumbers(stream, epoch * 37, 37);
    orders.insert(numbers);
    std::sort(numbers.begin(), numbers.end());
    for (int i = 0; i < 37; ++i) EXPECT_EQ(numbers[i], i);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST(SampleStream, BatchesCutOneStreamWhateverTheirSize) {
  SampleStream whole = Stream(Numbered(10), {.seed = 5}), pieces = Stream(Numbered(10), {.seed = 5});
  const std::vector<int> expected = ReadNumbers(whole, 0, 35);
  std::vector<int> found;
  for (int64_t at = 0; at < 35; at += 7) {
    const std::vector<int> part = ReadNumbers(pieces, at, 7);
    found.insert(found.end(), part.begin(), part.end());
  }
  EXPECT_EQ(found, expected);
}

TEST(SampleStream, AnotherSeedGivesAnotherOrderAndOffGivesThatOfTheFile) {
  SampleStream a = Stream(Numbered(30), {.seed = 1}), b = Stream(Numbered(30), {.seed = 2});
  EXPECT_NE(ReadNumbers(a, 0, 30), ReadNumbers(b, 0, 30));
  SampleStream off = Stream(Numbered(30), {.shuffle = false});
  const std::vector<int> numbers = ReadNumbers(off, 0, 30);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(numbers[i], i);
}

TEST(SampleStream, ATestSetIsReadOnceAndFilledUpWithPadding) {
  SampleStream stream = Stream(Numbered(5), {.shuffle = false, .once = true});
  std::vector<uint8_t> images(8 * 4, 9);
  std::vector<int32_t> labels(8);
  ASSERT_TRUE(stream.Read(2, absl::MakeSpan(images), absl::MakeSpan(labels)).ok());
  EXPECT_THAT(labels, ::testing::ElementsAre(2, 0, 1, -1, -1, -1, -1, -1));
  EXPECT_EQ(images[3 * 4], 0);
}

TEST(SampleStream, ShiftsMoveByAtMostAPixelAndDependOnTheEpoch) {
  ImageSet set{.sample_shape = {1, 5, 5}, .classes = 1, .mean = {0}, .std = {1}};
  set.pixels.assign(25, 0);
  set.pixels[12] = 255;  // the middle
  set.labels = {0};
  SampleStream stream = Stream(std::move(set), {.shift = true});
  std::set<int> places;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    std::vector<uint8_t> image(25);
    std::vector<int32_t> label(1);
    ASSERT_TRUE(stream.Read(epoch, absl::MakeSpan(image), absl::MakeSpan(label)).ok());
    const int at = static_cast<int>(std::max_element(image.begin(), image.end()) - image.begin());
    EXPECT_LE(std::abs(at / 5 - 2), 1);
    EXPECT_LE(std::abs(at % 5 - 2), 1);
    places.insert(at);
  }
  EXPECT_EQ(places.size(), 9u);
}

TEST(SampleStream, SamplesOfOneEpochShiftEachByItself) {
  ImageSet set{.sample_shape = {1, 5, 5}, .classes = 1, .mean = {0}, .std = {1}};
  constexpr int kSamples = 200;
  for (int i = 0; i < kSamples; ++i) {
    std::vector<uint8_t> image(25, 0);
    image[12] = 255;  // the middle
    set.pixels.insert(set.pixels.end(), image.begin(), image.end());
    set.labels.push_back(0);
  }
  SampleStream stream = Stream(std::move(set), {.shift = true});
  std::vector<uint8_t> images(25 * kSamples);
  std::vector<int32_t> labels(kSamples);
  ASSERT_TRUE(stream.Read(0, absl::MakeSpan(images), absl::MakeSpan(labels)).ok());
  std::set<int64_t> places;
  for (auto image = images.begin(); image != images.end(); image += 25) {
    places.insert(std::max_element(image, image + 25) - image);
  }
  EXPECT_EQ(places.size(), 9u);
}

// Zeros are pixels like others: the scaling is that of the images without them.
TEST(SampleStream, PaddingIsOfPixelsOfValueZero) {
  absl::StatusOr<ImageSet> digits = OpenDataset("digits", SplitOf::kTest, {.pad = 2});
  ASSERT_TRUE(digits.ok()) << digits.status();
  SampleStream stream = Stream(*digits, {});
  EXPECT_EQ(stream.scaling().scale, std::vector<double>{1 / (16 * digits->std[0])});
  EXPECT_EQ(stream.scaling().shift, std::vector<double>{-digits->mean[0] / digits->std[0]});
  std::vector<uint8_t> image(12 * 12);
  std::vector<int32_t> label(1);
  ASSERT_TRUE(stream.Read(0, absl::MakeSpan(image), absl::MakeSpan(label)).ok());
  for (size_t i = 0; i < image.size(); ++i) {
    const size_t y = i / 12, x = i % 12;
    const bool is_inside = y >= 2 && y < 10 && x >= 2 && x < 10;
    if (!is_inside) {
      EXPECT_EQ(image[i], 0) << y << " " << x;
    }
  }
}

TEST(SampleStream, ChannelsAreInnermost) {
  ImageSet set{
      .sample_shape = {3, 1, 2}, .pixels = {1, 2, 3, 4, 5, 6}, .labels = {0}, .classes = 1, .mean = {0}, .std = {1}};
  SampleStream stream = Stream(std::move(set), {.shuffle = false});
  std::vector<uint8_t> image(6);
  std::vector<int32_t> label(1);
  ASSERT_TRUE(stream.Read(0, absl::MakeSpan(image), absl::MakeSpan(label)).ok());
  EXPECT_THAT(image, ::testing::ElementsAre(1, 3, 5, 2, 4, 6));
}

// The shift belongs to sample and epoch: another cut of the stream, or a jump in it, moves the same sample alike.
TEST(SampleStream, ShiftsDoNotDependOnHowTheStreamIsRead) {
  const ImageSet digits = *OpenDataset("digits", SplitOf::kTest, {});
  SampleStream whole = Stream(digits, {.seed = 3, .shift = true}), jumping = Stream(digits, {.seed = 3, .shift = true});
  const int64_t count = 400, pixels = 64;  // 360 of the first epoch, 40 of the second
  std::vector<uint8_t> expected(count * pixels), found(pixels);
  std::vector<int32_t> labels(count), label(1);
  ASSERT_TRUE(whole.Read(0, absl::MakeSpan(expected), absl::MakeSpan(labels)).ok());
  for (int64_t at : {399, 0, 361, 17, 359, 360}) {
    ASSERT_TRUE(jumping.Read(at, absl::MakeSpan(found), absl::MakeSpan(label)).ok());
    EXPECT_EQ(label[0], labels[at]);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + at * pixels)) << "position " << at;
  }
}

TEST(SampleStream, SpansThatDoNotFitAndPositionsBelowZeroAreRefused) {
  SampleStream stream = Stream(Numbered(3), {});
  std::vector<uint8_t> images(7);
  std::vector<int32_t> labels(2);
  EXPECT_EQ(stream.Read(0, absl::MakeSpan(images), absl::MakeSpan(labels)).code(), absl::StatusCode::kFailedPrecondition);
  images.resize(8);
  EXPECT_EQ(stream.Read(-1, absl::MakeSpan(images), absl::MakeSpan(labels)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(stream.Read(0, absl::MakeSpan(images), absl::MakeSpan(labels)).ok());
}

TEST(SampleStream, MeanAndDeviationScaleEachChannel) {
  ImageSet set{.sample_shape = {2, 1, 1}, .pixels = {51, 102}, .labels = {0}, .classes = 1};
  SampleStream stream = Stream(std::move(set), {.shuffle = false, .mean = {0.1, 0.2}, .std = {0.5, 0.25}});
  const program::PixelScaling& scaling = stream.scaling();
  EXPECT_DOUBLE_EQ(scaling.scale[0] * 51 + scaling.shift[0], (0.2 - 0.1) / 0.5);
  EXPECT_DOUBLE_EQ(scaling.scale[1] * 102 + scaling.shift[1], (0.4 - 0.2) / 0.25);
  EXPECT_EQ(SampleStream::Create(Numbered(2), {.mean = {1, 2, 3}}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SampleStream::Create(Numbered(2), {.std = {0}}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Dataset, DigitsArePartOfTheProgram) {
  for (const auto& [split, count] : {std::pair{SplitOf::kTrain, 1437}, std::pair{SplitOf::kTest, 360}}) {
    absl::StatusOr<ImageSet> digits = OpenDataset("digits", split, {});
    ASSERT_TRUE(digits.ok()) << digits.status();
    EXPECT_EQ(digits->size(), count);
    EXPECT_EQ(digits->sample_shape, (program::Shape{1, 8, 8}));
    EXPECT_EQ(digits->classes, 10);
    EXPECT_LE(*std::max_element(digits->pixels.begin(), digits->pixels.end()), 16);
    EXPECT_GT(digits->mean[0], 0.2);
  }
}

TEST(Dataset, SyntheticHasTheShapeAskedForAndIsTheSameEachTime) {
  const DatasetOptions options{.synthetic_shape = {3, 7, 9}, .synthetic_classes = 5};
  absl::StatusOr<ImageSet> a = OpenDataset("synthetic", SplitOf::kTrain, options);
  absl::StatusOr<ImageSet> b = OpenDataset("synthetic", SplitOf::kTrain, options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->pixels, b->pixels);
  EXPECT_EQ(a->classes, 5);
  EXPECT_EQ(static_cast<int64_t>(a->pixels.size()), a->size() * 3 * 7 * 9);
}

TEST(Dataset, AFolderThatIsMissingIsNotFound) {
  EXPECT_EQ(OpenDataset("no/such/folder", SplitOf::kTrain, {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace colonnade::data
