// What comes out of an image: known values, and a reference in double precision.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"

namespace colonnade::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<uint8_t> Rendered(const AugmentOptions& options, const View& view, const Image& image, const Box& box) {
  std::vector<uint8_t> out(static_cast<size_t>(options.height * options.width * options.channels));
  Render(options, view, image, box, absl::MakeSpan(out));
  return out;
}

// A row or more of grey, resampled to height x width.
std::vector<uint8_t> Grey(const Image& image, const Box& box, int64_t height, int64_t width,
                          Cropping how = Cropping::kWhole) {
  return Rendered({.height = height, .width = width, .channels = 1, .cropping = how}, {}, image, box);
}

// One pixel of colour, changed.
std::vector<uint8_t> Changed(const View& view, const std::vector<uint8_t>& pixel) {
  return Rendered({.height = 1, .width = 1}, view, Uniform(1, 1, pixel), {0, 0, 1, 1});
}

TEST(Render, CopiesABoxOfTheSizeOnWholePixels) {
  for (int64_t channels : {1, 3}) {
    const Image image = Pattern(20, 30, channels);
    const AugmentOptions options = {.height = 12, .width = 17, .channels = channels};
    EXPECT_EQ(Rendered(options, {}, image, {5, 7, 12, 17}), PartOf(image, 5, 7, 12, 17).pixels);
  }
}

TEST(Render, MirrorsLeftAndRight) {
  const Image image{1, 3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_THAT(Rendered({.height = 1, .width = 3}, {.mirrored = true}, image, {0, 0, 1, 3}),
              ElementsAre(7, 8, 9, 4, 5, 6, 1, 2, 3));
}

TEST(Render, MirroredOrNotPixelsAreTheSame) {
  const Image image = Pattern(30, 40, 1);
  const AugmentOptions options = {.height = 11, .width = 13, .channels = 1};
  std::vector<uint8_t> plain = Rendered(options, {}, image, {1.3, 2.7, 25, 31}),
                       mirrored = Rendered(options, {.mirrored = true}, image, {1.3, 2.7, 25, 31});
  for (int y = 0; y < 11; ++y) std::reverse(mirrored.begin() + y * 13, mirrored.begin() + (y + 1) * 13);
  EXPECT_EQ(mirrored, plain);
}

TEST(Render, HalvingIsTheMeanOfFour) {
  EXPECT_THAT(Grey({2, 4, 1, {10, 20, 0, 255, 30, 41, 255, 255}}, {0, 0, 2, 4}, 1, 2), ElementsAre(25, 191));
}

TEST(Render, ShrinksByArea) {
  EXPECT_THAT(Grey({1, 3, 1, {30, 60, 120}}, {0, 0, 1, 3}, 1, 2), ElementsAre(40, 100));  // (30 + 60/2) / 1.5
  EXPECT_THAT(Grey({1, 3, 1, {30, 60, 120}}, {0, 0.5, 1, 2}, 1, 2), ElementsAre(45, 90));
  EXPECT_THAT(Grey({1, 8, 1, {1, 2, 3, 4, 5, 6, 7, 8}}, {0, 0, 1, 8}, 1, 1), ElementsAre(5));  // 4.5
  EXPECT_THAT(Grey({8, 1, 1, {1, 2, 3, 4, 5, 6, 7, 9}}, {0, 0, 8, 1}, 1, 1), ElementsAre(5));
}

TEST(Render, EnlargesBilinearlyFromCentreToCentre) {
  const Image image{1, 2, 1, {0, 100}};
  EXPECT_THAT(Grey(image, {0, 0, 1, 2}, 1, 4), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(Grey({2, 1, 1, {0, 100}}, {0, 0, 2, 1}, 4, 1), ElementsAre(0, 25, 75, 100));
  // What lies beside the box is seen where the image has it.
  EXPECT_THAT(Grey({1, 4, 1, {80, 0, 100, 20}}, {0, 1, 1, 2}, 1, 4), ElementsAre(20, 25, 75, 80));
}

TEST(Render, OutsideOfAPaddedImageIsZero) {
  const Image image{2, 2, 1, {10, 20, 30, 40}};
  EXPECT_THAT(Grey(image, {-1, 1, 2, 2}, 2, 2, Cropping::kPadded), ElementsAre(0, 0, 20, 0));
  EXPECT_THAT(Grey(image, {1, -1, 2, 2}, 2, 2, Cropping::kPadded), ElementsAre(0, 30, 0, 0));
  EXPECT_THAT(Grey(image, {5, 5, 2, 2}, 2, 2, Cropping::kPadded), Each(0));
}

TEST(Render, ManyPixelsBecomeOneMean) {
  const Image row = Pattern(1, 65000, 1);
  double sum = 0;
  for (uint8_t pixel : row.pixels) sum += pixel;
  EXPECT_NEAR(Grey(row, {0, 0, 1, 65000}, 1, 1)[0], sum / 65000, 1.5);
}

// Between begin and end, of values that are constant in each pixel; or at a centre, of values between centres of pixels.
double Reference(const std::vector<double>& values, double begin, double end) {
  const auto at = [&](int64_t i) { return values[static_cast<size_t>(std::clamp<int64_t>(i, 0, std::ssize(values) - 1))]; };
  const double centre = (begin + end) / 2 - 0.5, part = centre - std::floor(centre);
  const int64_t before = static_cast<int64_t>(std::floor(centre));
  if (end - begin < 1) return at(before) * (1 - part) + at(before + 1) * part;
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(begin); i < end; ++i)
    sum += at(i) * (std::min(end, i + 1.0) - std::max(begin, 1.0 * i));
  return sum / (end - begin);
}

double ReferenceAt(const Image& image, const Box& box, double step_down, double step_right, int64_t y, int64_t x) {
  std::vector<double> column;
  for (int64_t row = 0; row < image.height; ++row) {
    const auto pixels = image.pixels.begin() + row * image.width;
    column.push_back(Reference({pixels, pixels + image.width}, box.left + x * step_right, box.left + (x + 1) * step_right));
  }
  return Reference(column, box.top + y * step_down, box.top + (y + 1) * step_down);
}

TEST(Render, IsTheReferenceRounded) {
  std::mt19937 random(5);
  const auto draw = [&random](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  for (int i = 0; i < 60; ++i) {
    const Image image = Pattern(20 + i % 7, 15 + i % 11, 1, i);
    const Box box = {draw(0, 5), draw(0, 5), draw(1, 15), draw(1, 10)};
    const int64_t height = 1 + i % 23, width = 1 + i % 17;
    const std::vector<uint8_t> out = Grey(image, box, height, width);
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        EXPECT_NEAR(out[y * width + x], ReferenceAt(image, box, box.height / height, box.width / width, y, x), 0.52);
      }
    }
  }
}

// Scales of all kinds: equal, larger, smaller by less and by more than two, and by much.
std::vector<Box> BoxesOfAllScales() {
  return {{0, 0, 90, 110}, {3, 5, 33, 45}, {1.5, 2.25, 20, 30.5}, {0, 0, 50, 70}, {10, 7, 79.5, 100.25}, {20, 30, 1, 1}};
}

Image ChannelOf(const Image& image, size_t channel) {
  Image grey{image.height, image.width, 1, {}};
  for (size_t i = channel; i < image.pixels.size(); i += 3) grey.pixels.push_back(image.pixels[i]);
  return grey;
}

// Of three channels columns are summed by vectors, of one they are not; and of rows more values fill whole vectors.
TEST(Render, OfColoursIsThatOfEachChannelAlone) {
  const Image image = Pattern(90, 110, 3);
  for (const Box& box : BoxesOfAllScales()) {
    for (const auto& [height, width] : {std::pair{33, 45}, {7, 8}, {40, 64}, {2, 3}, {120, 131}}) {
      const AugmentOptions options = {.height = height, .width = width};
      const Image out{height, width, 3, Rendered(options, {}, image, box)};
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_TRUE(ChannelOf(out, c).pixels == Grey(ChannelOf(image, c), box, height, width))
            << box.height << " x " << box.width << " to " << height << " x " << width << ", channel " << c;
      }
    }
  }
}

// An asserted number, so that a machine, or a change, that gives other pixels is seen.
TEST(Render, GivesThePixelsThatItAlwaysGave) {
  uint64_t sum = ChecksumOf("");
  for (int64_t channels : {1, 3}) {
    const Image image = Pattern(90, 110, channels);
    for (const Box& box : BoxesOfAllScales()) {
      for (bool mirrored : {false, true}) {
        const AugmentOptions options = {.height = 33, .width = 45, .channels = channels};
        sum = ChecksumOf(Image{33, 45, channels, Rendered(options, {.mirrored = mirrored}, image, box)}, sum);
      }
    }
  }
  EXPECT_EQ(sum, 9323941926883947935u);
}

TEST(Render, OfAPartIsThatOfTheWhole) {
  const Image whole = Pattern(90, 110, 3);
  const std::string file = PngOf(whole);
  for (const Box& box : {Box{10.25, 20.5, 30, 40.75}, {0, 0, 90, 110}, {60, 70, 30, 40}, {33, 44, 2, 3}}) {
    const AugmentOptions options = {.height = 32, .width = 48};
    const DecodedBox part = *DecodeBox(file, 3, box, 32, 48);
    EXPECT_EQ(Rendered(options, {}, part.image, part.box), Rendered(options, {}, whole, box));
  }
}

TEST(Render, BrightnessIsAFactorUpToWhite) {
  EXPECT_THAT(Changed({.brightness = 1.5}, {10, 101, 200}), ElementsAre(15, 152, 255));
}

TEST(Render, ContrastIsAboutTheMeanGrey) {
  const Image image{1, 2, 1, {100, 200}};
  const AugmentOptions options = {.height = 1, .width = 2, .channels = 1};
  EXPECT_THAT(Rendered(options, {.contrast = 0.5}, image, {0, 0, 1, 2}), ElementsAre(125, 175));
  EXPECT_THAT(Rendered(options, {.contrast = 3}, image, {0, 0, 1, 2}), ElementsAre(0, 255));
  // 0.299 · 200 + 0.587 · 100 + 0.114 · 50 = 124.2
  EXPECT_THAT(Changed({.contrast = 0}, {200, 100, 50}), ElementsAre(124, 124, 124));
  // Brightness comes first: the mean is 75.
  EXPECT_THAT(Rendered(options, {.brightness = 0.5, .contrast = 2}, image, {0, 0, 1, 2}), ElementsAre(25, 125));
}

TEST(Render, SaturationIsAboutEachPixelsGrey) {
  EXPECT_THAT(Changed({.saturation = 0}, {200, 100, 50}), ElementsAre(124, 124, 124));
  EXPECT_THAT(Changed({.saturation = 0.5}, {200, 100, 50}), ElementsAre(162, 112, 87));
  EXPECT_THAT(Changed({.saturation = 2}, {200, 100, 50}), ElementsAre(255, 76, 0));
}

TEST(Render, HueTurnsFromRedByGreenToBlue) {
  EXPECT_THAT(Changed({.hue = 1.0 / 3}, {200, 50, 50}), ElementsAre(50, 200, 50));
  EXPECT_THAT(Changed({.hue = -1.0 / 3}, {200, 50, 50}), ElementsAre(50, 50, 200));
  EXPECT_THAT(Changed({.hue = 0.5}, {200, 100, 50}), ElementsAre(50, 150, 200));
  EXPECT_THAT(Changed({.hue = 1.0 / 12}, {200, 50, 50}), ElementsAre(200, 125, 50));
  EXPECT_EQ(Changed({.hue = -0.5}, {200, 50, 190}), Changed({.hue = 0.5}, {200, 50, 190}));
  EXPECT_THAT(Changed({.hue = 0.3}, {77, 77, 77}), ElementsAre(77, 77, 77));
}

TEST(Render, AWholeTurnOfHueChangesNothing) {
  const Image image = Pattern(30, 30, 3);
  EXPECT_EQ(Rendered({.height = 30, .width = 30}, {.hue = 1}, image, {0, 0, 30, 30}), image.pixels);
}

TEST(Render, LightIsAddedToEachChannel) {
  EXPECT_THAT(Changed({.light = {10.4, -20.6, 300}}, {100, 100, 100}), ElementsAre(110, 79, 255));
}

TEST(Render, CutoutIsFilledLast) {
  AugmentOptions options = {.height = 3, .width = 3, .channels = 1, .fill = 9};
  View view = {.brightness = 2, .cut_top = 1, .cut_left = 0, .cut_height = 2, .cut_width = 2};
  EXPECT_THAT(Rendered(options, view, Uniform(3, 3, {50}), {0, 0, 3, 3}), ElementsAre(100, 100, 100, 9, 9, 100, 9, 9, 100));
}

}  // namespace
}  // namespace colonnade::data
