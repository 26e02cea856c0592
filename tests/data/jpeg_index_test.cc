// Parts of JPEGs by an index: the pixels are those that decoding without one gives.

#include "data/jpeg_index.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/decode.h"
#include "data/gzip.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

JpegLook BaselineLook(std::mt19937& random, int64_t channels) {
  constexpr std::pair<int, int> kSamplings[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
  JpegLook look = {.quality = Drawn(random, 30, 100), .optimised = Drawn(random, 0, 3) == 0};
  if (channels == 1 && Drawn(random, 0, 1) == 0) look.sampling = {{2, 2}};
  if (channels == 3) look.sampling = {kSamplings[Drawn(random, 0, 7)], {1, 1}, {1, 1}};
  if (channels == 3 && Drawn(random, 0, 7) == 0) look.sampling = {{2, 2}, {2, 1}, {1, 2}};
  if (channels == 3 && Drawn(random, 0, 15) == 0) look.rgb_file = true;
  return look;
}

Part Of(const Box& box) {
  return {static_cast<int64_t>(box.top), static_cast<int64_t>(box.left), static_cast<int64_t>(box.top + box.height),
          static_cast<int64_t>(box.left + box.width)};
}

void ExpectTheSame(const std::string& file, int64_t channels, const Box& box, int64_t height, int64_t width,
                   const JpegIndex& index) {
  const absl::StatusOr<DecodedBox> without = DecodeBox(file, channels, box, height, width);
  const absl::StatusOr<DecodedBox> by_index = DecodeBox(file, channels, box, height, width, {}, &index);
  ASSERT_TRUE(without.ok() && by_index.ok()) << without.status() << by_index.status();
  EXPECT_EQ(by_index->box, without->box);
  EXPECT_EQ(by_index->image.height, without->image.height);
  EXPECT_EQ(by_index->image.width, without->image.width);
  EXPECT_TRUE(by_index->image.pixels == without->image.pixels);
}

TEST(JpegIndex, PartsHaveThePixelsThatTheyHaveWithoutIt) {
  std::mt19937 random(11);
  int cuts = 0;
  for (int i = 0; i < Draws(2000) && !HasFailure(); ++i) {
    const int64_t stored = Drawn(random, 0, 3) == 0 ? 1 : 3, channels = Drawn(random, 0, 3) == 0 ? 1 : 3;
    const int64_t height = Drawn(random, 1, 200), width = Drawn(random, 1, 300);
    const JpegLook look = BaselineLook(random, stored);
    const std::string file = JpegOf(Pattern(height, width, stored, i), look);
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    ASSERT_TRUE(index) << i;
    const Box box = DrawnBox(random, height, width);
    ExpectTheSame(file, channels, box, Drawn(random, 1, 64), Drawn(random, 1, 64), *index);
    cuts += index->CutOut(file, Of(box)).has_value();
    if (HasFailure()) {
      std::string sampling;
      for (auto [across, down] : look.sampling) sampling += absl::StrCat(across, "x", down, " ");
      ADD_FAILURE() << i << ": " << height << " x " << width << " x " << stored << ", " << sampling << "optimised "
                    << look.optimised << ", box " << box.top << " " << box.left << " " << box.height << " " << box.width;
    }
  }
  EXPECT_GT(cuts, Draws(2000) / 2);
}

// Black and white in turn: differences of brightness as large as they become.
TEST(JpegIndex, TheBrightestBehindTheDarkestIsToldAsItIs) {
  Image image{.height = 64, .width = 160, .channels = 1, .pixels = std::vector<uint8_t>(64 * 160)};
  std::mt19937 random(5);
  for (int64_t block = 0; block < 8 * 20; ++block) {
    const uint8_t value = Drawn(random, 0, 1) == 0 ? 0 : 255;
    for (int64_t y = 0; y < 8; ++y)
      std::fill_n(image.pixels.begin() + (block / 20 * 8 + y) * 160 + block % 20 * 8, 8, value);
  }
  const std::string file = JpegOf(image, {.quality = 100});
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  ASSERT_TRUE(index);
  for (int i = 0; i < 200; ++i) ExpectTheSame(file, 1, DrawnBox(random, 64, 160), 64, 160, *index);
}

TEST(JpegIndex, ACutIsOfTheMcusAroundAPart) {
  const std::string file = JpegOf(Pattern(200, 300, 3), {.sampling = {{2, 2}, {1, 1}, {1, 1}}});  // 13 x 19 MCUs
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  const auto extents = [&](const Part& part) {
    const std::optional<JpegIndex::Cut> cut = index->CutOut(file, part);
    if (!cut) return std::vector<int64_t>();
    const ImageHeader header = *ReadImageHeader(cut->jpeg);
    return std::vector<int64_t>{cut->top, cut->left, header.height, header.width};
  };
  EXPECT_EQ(extents({100, 100, 101, 101}), (std::vector<int64_t>{96, 96, 16, 48}));  // column 6 of every third
  EXPECT_EQ(extents({95, 95, 112, 96}), (std::vector<int64_t>{80, 48, 32, 48}));
  EXPECT_EQ(extents({95, 95, 113, 97}), (std::vector<int64_t>{80, 48, 48, 96}));
  EXPECT_EQ(extents({-2, -2, 3, 3}), (std::vector<int64_t>{0, 0, 16, 48}));
  EXPECT_EQ(extents({199, 299, 203, 303}), (std::vector<int64_t>{192, 288, 8, 12}));  // where the image ends
  // Of the first row all but three of 19 MCUs (0.84), and all of them.
  EXPECT_EQ(extents({0, 48, 1, 300}), (std::vector<int64_t>{0, 48, 16, 252}));
  EXPECT_EQ(extents({0, 0, 1, 300}), std::vector<int64_t>());
  EXPECT_EQ(extents({0, 0, 200, 300}), std::vector<int64_t>());
}

TEST(JpegIndex, IsOfOneFileAlone) {
  const std::string file = JpegOf(Pattern(200, 300, 3)), other = JpegOf(Pattern(200, 300, 3, 2));
  const std::optional<JpegIndex> index = JpegIndex::Of(file);
  EXPECT_TRUE(index->CutOut(file, {100, 100, 120, 120}));
  EXPECT_FALSE(index->CutOut(other, {100, 100, 120, 120}));
  ExpectTheSame(other, 3, {100, 100, 20, 20}, 20, 20, *index);
}

TEST(JpegIndex, TakesLittleMemory) {
  const std::string file = JpegOf(Pattern(500, 667, 3), {.sampling = {{2, 2}, {1, 1}, {1, 1}}});
  EXPECT_LT(JpegIndex::Of(file)->bytes(), 32 * 14 * 8 + 100);  // rows of MCUs, and a third of their columns
}

TEST(JpegIndex, OfOtherKindsThereIsNone) {
  const Image image = Pattern(40, 50, 3);
  EXPECT_TRUE(JpegIndex::Of(JpegOf(image)));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.progressive = true})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.arithmetic = true})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(image, {.restart_rows = 1})));
  EXPECT_FALSE(JpegIndex::Of(JpegOf(Pattern(40, 50, 4))));
  EXPECT_FALSE(JpegIndex::Of(PngOf(image)));
  EXPECT_FALSE(JpegIndex::Of(""));
}

TEST(JpegIndex, OfADamagedFileThereIsNone) {
  const std::string file = JpegOf(Pattern(120, 160, 3));
  for (size_t i = 0; i < 256; ++i) EXPECT_FALSE(JpegIndex::Of(file.substr(0, file.size() * i / 256))) << i;
  EXPECT_FALSE(JpegIndex::Of(file.substr(0, file.size() - 1)));
  std::string with_more = file;
  with_more.insert(file.size() - 2, "xy");
  EXPECT_FALSE(JpegIndex::Of(with_more));
  EXPECT_TRUE(JpegIndex::Of(file + "xy"));  // behind the image
}

// What has an index decodes by it as without it, or not at all.
TEST(JpegIndex, FlippedBitsChangeNothingOfThat) {
  std::mt19937 random(3);
  int indexed = 0;
  for (int i = 0; i < Draws(4000) && !HasFailure(); ++i) {
    std::string file = JpegOf(Pattern(60, 90, 3), {.quality = 50, .optimised = i % 2 == 0});
    const size_t bit = random() % (file.size() * 8);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    if (!index) continue;
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(file);
    if (!header.ok()) continue;
    ++indexed;
    const Box box = DrawnBox(random, header->height, header->width);
    const absl::StatusOr<DecodedBox> without = DecodeBox(file, 3, box, 64, 64);
    const absl::StatusOr<DecodedBox> by_index = DecodeBox(file, 3, box, 64, 64, {}, &*index);
    ASSERT_EQ(by_index.status(), without.status()) << i << " bit " << bit;
    EXPECT_TRUE(!without.ok() || by_index->image.pixels == without->image.pixels) << i << " bit " << bit;
  }
  EXPECT_GT(indexed, Draws(4000) / 4);
}

TEST(JpegIndex, PhotographsHaveOneAndThePixelsThatTheyHaveWithoutIt) {
  SKIP_WITHOUT_SHARED_DATA("imagenet-samples");
  std::mt19937 random(13);
  int indexed = 0, files = 0;
  for (const std::string& file : FilesOfTar(*ReadWholeFile(SharedData("imagenet-samples/imagenet-samples.tar")))) {
    const ImageHeader header = *ReadImageHeader(file);
    const std::optional<JpegIndex> index = JpegIndex::Of(file);
    ++files;
    if (!index) continue;
    ++indexed;
    for (int i = 0; i < 4; ++i) {
      ExpectTheSame(file, 3, DrawnBox(random, header.height, header.width), 224, 224, *index);
    }
  }
  EXPECT_GT(indexed, files * 9 / 10);
}

}  // namespace
}  // namespace colonnade::data
