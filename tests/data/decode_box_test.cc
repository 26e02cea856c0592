// Parts of images: the pixels are those of the whole image at the same scale.

#include <png.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/decode.h"
#include "data/jpeg.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

constexpr int kBoxes = Draws(2000);

JpegLook DrawnLook(std::mt19937& random, int64_t channels) {
  constexpr std::pair<int, int> kSamplings[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
  JpegLook look = {.quality = Drawn(random, 30, 95),
                   .progressive = Drawn(random, 0, 3) == 0,
                   .arithmetic = Drawn(random, 0, 7) == 0,
                   .restart_rows = Drawn(random, 0, 2)};
  look.ycck = Drawn(random, 0, 1) == 0;
  if (channels == 1) return look;
  const std::pair<int, int> luma = kSamplings[Drawn(random, 0, channels == 4 ? 4 : 6)];
  look.sampling = {luma, {1, 1}, {1, 1}};
  if (channels == 3 && Drawn(random, 0, 7) == 0) look.sampling = {{2, 2}, {2, 1}, {1, 2}};
  if (Drawn(random, 0, 15) == 0) look.sampling = {{1, 1}, {2, 1}, {1, 1}};
  if (channels == 4) look.sampling.push_back(look.sampling[0]);
  return look;
}

int ScaleByTheHeader(const Box& box, int64_t height, int64_t width) {
  for (int eighths : {1, 2, 4}) {
    if (box.height * eighths / 8 >= height && box.width * eighths / 8 >= width) return eighths;
  }
  return 8;
}

// How far `part` begins behind `whole`'s corner, of the two places of one box.
int64_t Behind(double whole, double part) { return std::lround(whole - part); }

void ExpectThePartOfTheWhole(const DecodedBox& part, const Image& whole, const Box& box, double scale) {
  const int64_t top = Behind(box.top * scale, part.box.top), left = Behind(box.left * scale, part.box.left);
  EXPECT_EQ(part.box.height, box.height * scale);
  EXPECT_EQ(part.box.width, box.width * scale);
  // A pixel more on each side, where there is one.
  EXPECT_EQ(top, std::max(0.0, std::floor(box.top * scale) - 1));
  EXPECT_EQ(left, std::max(0.0, std::floor(box.left * scale) - 1));
  EXPECT_EQ(top + part.image.height, std::min<double>(whole.height, std::ceil((box.top + box.height) * scale) + 1));
  EXPECT_EQ(left + part.image.width, std::min<double>(whole.width, std::ceil((box.left + box.width) * scale) + 1));
  EXPECT_TRUE(part.image.pixels == PartOf(whole, top, left, part.image.height, part.image.width).pixels);
}

TEST(DecodeBox, HasThePixelsOfTheWholeJpegAtItsScale) {
  std::mt19937 random(7);
  for (int i = 0; i < kBoxes && !HasFailure(); ++i) {
    const int64_t stored = std::vector<int64_t>{1, 3, 3, 4}[Drawn(random, 0, 3)],
                  channels = Drawn(random, 0, 3) == 0 ? 1 : 3;
    const int64_t height = Drawn(random, 1, 120), width = Drawn(random, 1, 160);
    const JpegLook look = DrawnLook(random, stored);
    const std::string file = JpegOf(Pattern(height, width, stored, i), look);
    const Box box = DrawnBox(random, height, width);
    const int64_t to_height = Drawn(random, 1, 64), to_width = Drawn(random, 1, 64);
    const int eighths = ScaleByTheHeader(box, to_height, to_width);
    const absl::StatusOr<Image> whole = DecodeJpeg(file, channels, eighths, Part());
    const absl::StatusOr<DecodedBox> part = DecodeBox(file, channels, box, to_height, to_width);
    ASSERT_TRUE(whole.ok() && part.ok()) << part.status();
    ExpectThePartOfTheWhole(*part, *whole, box, eighths / 8.0);
    if (HasFailure()) {
      std::string sampling;
      for (auto [across, down] : look.sampling) sampling += absl::StrCat(across, "x", down, " ");
      ADD_FAILURE() << i << ": " << height << " x " << width << " x " << stored << ", " << sampling << "progressive "
                    << look.progressive << ", scale " << eighths << "/8, box " << box.top << " " << box.left << " "
                    << box.height << " " << box.width;
    }
  }
}

TEST(DecodeBox, HasThePixelsOfTheWholePng) {
  std::mt19937 random(7);
  for (bool interlaced : {false, true}) {
    const Image image = Pattern(40, 30, 3);
    const std::string file = PngOf(40, 30, image.pixels, {.color_type = PNG_COLOR_TYPE_RGB, .interlaced = interlaced});
    for (int i = 0; i < 50; ++i) {
      const Box box = DrawnBox(random, 40, 30);
      ExpectThePartOfTheWhole(*DecodeBox(file, 3, box, 2, 2), image, box, 1);
    }
  }
}

// A decoder may guess at what later scans would have said, from blocks around: not of a part otherwise than of the whole.
TEST(DecodeBox, HasThePixelsOfTheWholeJpegWhereScansAreLeftOut) {
  const std::string file = JpegOf(Pattern(120, 160, 1), {.progressive = true});
  const size_t second = file.find("\xff\xda", file.find("\xff\xda") + 2);
  const std::string first_scan = file.substr(0, file.rfind("\xff\xc4", second)) + "\xff\xd9";
  const Box box = {40, 50, 30, 30};
  ExpectThePartOfTheWhole(*DecodeBox(first_scan, 1, box, 30, 30), *DecodeImage(first_scan, 1), box, 1);
}

TEST(DecodeBox, OfABoxBetweenPixelsHasAllThatItTouches) {
  const std::string file = JpegOf(Pattern(100, 100, 3));
  const absl::StatusOr<DecodedBox> part = DecodeBox(file, 3, {10.5, 20.25, 30.5, 40.5}, 100, 100);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->box, (Box{1.5, 1.25, 30.5, 40.5}));
  EXPECT_EQ(part->image.height, 1 + 31 + 1);  // rows 10 to 40
  EXPECT_EQ(part->image.width, 1 + 41 + 1);   // columns 20 to 60
}

TEST(DecodeBox, TakesTheSmallestScaleAtWhichTheBoxIsLargeEnough) {
  const std::string file = JpegOf(Pattern(448, 448, 1));
  const Box all = {0, 0, 448, 448};
  const std::pair<int64_t, int64_t> sizes[] = {{1, 56},    {56, 56},   {57, 112},  {112, 112},
                                               {113, 224}, {224, 224}, {225, 448}, {449, 448}};
  for (const auto& [asked, decoded] : sizes) {
    EXPECT_EQ(DecodeBox(file, 1, all, asked, asked)->image.height, decoded) << asked;
  }
  EXPECT_EQ(DecodeBox(file, 1, all, 10, 113)->image.width, 224);
}

}  // namespace
}  // namespace colonnade::data
