// What is drawn for a sample: of which values, how often, and that of nothing but (seed, epoch, sample).

#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/formulas/philox.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

constexpr int kSamples = 10000;

AugmentOptions To224(Cropping cropping) { return {.height = 224, .width = 224, .cropping = cropping}; }

std::vector<View> ViewsOf(const AugmentOptions& options, int64_t height, int64_t width, int count = kSamples) {
  std::vector<View> views;
  for (int i = 0; i < count; ++i) views.push_back(DrawView(options, 7, i % 3, i, height, width));
  return views;
}

// The mean of `value` is that of its distribution, as far as five standard errors tell.
void ExpectMean(const std::vector<View>& views, double mean, double deviation,
                const std::function<double(const View&)>& value) {
  double sum = 0;
  for (const View& view : views) sum += value(view);
  const double n = static_cast<double>(views.size());
  EXPECT_NEAR(sum / n, mean, 5 * deviation / std::sqrt(n));
}

double UniformDeviation(double low, double high) { return (high - low) / std::sqrt(12.0); }

void ExpectWithin(const std::vector<View>& views, double low, double high, const std::function<double(const View&)>& value) {
  double least = INFINITY, most = -INFINITY;
  for (const View& view : views) {
    least = std::min(least, value(view));
    most = std::max(most, value(view));
  }
  EXPECT_GE(least, low);
  EXPECT_LE(most, high);
  EXPECT_LT(least, low + 0.02 * (high - low));
  EXPECT_GT(most, high - 0.02 * (high - low));
}

TEST(DrawView, IsAFunctionOfSeedEpochAndSample) {
  AugmentOptions options = To224(Cropping::kRandomResized);
  options.mirror = true;
  options.brightness = options.contrast = options.saturation = options.lighting = 0.4;
  options.hue = 0.1;
  options.cutout = 16;
  const View view = DrawView(options, 1, 2, 3, 400, 500);
  EXPECT_EQ(DrawView(options, 1, 2, 3, 400, 500), view);
  for (const View& other :
       {DrawView(options, 9, 2, 3, 400, 500), DrawView(options, 1, 9, 3, 400, 500), DrawView(options, 1, 2, 9, 400, 500)}) {
    EXPECT_NE(other.box, view.box);
    EXPECT_NE(other.brightness, view.brightness);
    EXPECT_NE(other.light, view.light);
  }
}

TEST(DrawView, OneThingDrawnDoesNotMoveAnother) {
  AugmentOptions few = To224(Cropping::kRandomResized), many = few;
  many.mirror = true;
  many.hue = many.lighting = 0.1;
  many.cutout = 3;
  EXPECT_EQ(DrawView(few, 1, 2, 3, 400, 500).box, DrawView(many, 1, 2, 3, 400, 500).box);
}

TEST(DrawView, ByDefaultNothingIsChanged) {
  EXPECT_EQ(DrawView({.height = 5, .width = 5}, 1, 2, 3, 40, 50), (View{.box = {0, 0, 40, 50}}));
}

TEST(DrawView, APadOfFourMovesByUpToFour) {
  const AugmentOptions options = {.height = 32, .width = 32, .cropping = Cropping::kPadded, .pad = 4};
  const std::vector<View> views = ViewsOf(options, 32, 32);
  for (const auto& place : {+[](const View& v) { return v.box.top; }, +[](const View& v) { return v.box.left; }}) {
    ExpectWithin(views, -4, 4, place);
    ExpectMean(views, 0, std::sqrt(60.0 / 9), place);
  }
  EXPECT_EQ(views[0].box.height, 32);
}

// The words are Philox's for this key: 2 is down and to the right by a pixel, 0 up and to the left.
TEST(DrawView, APadMovesDownAndToTheRightByTheFirstTwoWords) {
  const AugmentOptions options = {.height = 5, .width = 6, .channels = 1, .cropping = Cropping::kPadded, .pad = 1};
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const program::Philox4 r = program::RandomBlock(11, program::RandomPurpose::kAugmentation, 0, epoch, 7);
    const View view = DrawView(options, 11, epoch, 7, 5, 6);
    EXPECT_EQ(view.box.top, 1 - static_cast<double>(r.v[0] % 3));
    EXPECT_EQ(view.box.left, 1 - static_cast<double>(r.v[1] % 3));
  }
}

TEST(DrawView, APadIsOfPixelsThatComeOutWhateverTheSizeOfTheImage) {
  const AugmentOptions options = {.height = 32, .width = 32, .cropping = Cropping::kPadded, .pad = 4};
  const std::vector<View> views = ViewsOf(options, 48, 320);
  ExpectWithin(views, -6, 6, [](const View& v) { return v.box.top; });
  ExpectWithin(views, -40, 40, [](const View& v) { return v.box.left; });
  EXPECT_EQ(std::pair(views[0].box.height, views[0].box.width), std::pair(48.0, 320.0));
}

TEST(DrawView, RandomResizedHasAreasAspectsAndPlacesWithinBounds) {
  AugmentOptions options = To224(Cropping::kRandomResized);
  options.most_area = 0.5;  // so that every attempt fits a square
  const std::vector<View> views = ViewsOf(options, 4000, 4000);
  const auto area = [](const View& v) { return v.box.height * v.box.width / 16e6; };
  const auto aspect = [](const View& v) { return std::log(v.box.width / v.box.height); };
  const auto place = [](const View& v) { return v.box.top / (4000 - v.box.height); };
  const double turn = std::log(4.0 / 3);
  ExpectWithin(views, 0.0799, 0.5002, area);
  ExpectMean(views, 0.29, UniformDeviation(0.08, 0.5), area);
  ExpectWithin(views, -turn - 0.001, turn + 0.001, aspect);
  ExpectMean(views, 0, UniformDeviation(-turn, turn), aspect);
  ExpectWithin(views, 0, 1, place);
  ExpectMean(views, 0.5, UniformDeviation(0, 1), place);
  ExpectMean(views, 0.5, UniformDeviation(0, 1), [](const View& v) { return v.box.left / (4000 - v.box.width); });
}

TEST(DrawView, RandomResizedReachesBothEdges) {
  AugmentOptions options = To224(Cropping::kRandomResized);
  options.least_area = options.most_area = 9.0 / 16;
  options.least_aspect = options.most_aspect = 1;
  const std::vector<View> views = ViewsOf(options, 4, 4, 1000);  // 3 x 3
  ExpectWithin(views, 0, 1, [](const View& v) { return v.box.top; });
  ExpectWithin(views, 0, 1, [](const View& v) { return v.box.left; });
}

TEST(DrawView, RandomResizedLiesInImagesOfAllShapes) {
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 3}, {100, 37}, {60, 300}, {1000, 999}}) {
    for (const View& view : ViewsOf(To224(Cropping::kRandomResized), height, width, 500)) {
      EXPECT_GE(std::min({view.box.top, view.box.left, view.box.height - 1, view.box.width - 1}), 0);
      EXPECT_LE(view.box.top + view.box.height, height);
      EXPECT_LE(view.box.left + view.box.width, width);
    }
  }
}

TEST(DrawView, RandomResizedTakesTheMiddleWhereNothingFits) {
  const AugmentOptions options = To224(Cropping::kRandomResized);
  EXPECT_EQ(DrawView(options, 1, 2, 3, 10, 1000).box, (Box{0, 493, 10, 13}));
  EXPECT_EQ(DrawView(options, 1, 2, 3, 1000, 12).box, (Box{492, 0, 16, 12}));
}

TEST(DrawView, ScaledRandomCutsAnywhere) {
  const std::vector<View> views = ViewsOf(To224(Cropping::kScaledRandom), 256, 320);
  ExpectWithin(views, 0, 32, [](const View& v) { return v.box.top; });
  ExpectWithin(views, 0, 96, [](const View& v) { return v.box.left; });
  for (const View& view : views) EXPECT_EQ(view.box.height, 224);
}

TEST(DrawView, ScaledRandomDrawsTheLengthOfTheShorterSide) {
  AugmentOptions options = To224(Cropping::kScaledRandom);
  options.resize_max = 512;
  const std::vector<View> views = ViewsOf(options, 375, 500);
  const auto length = [](const View& v) { return 224 * 375 / v.box.height; };
  ExpectWithin(views, 256 - 1e-9, 512 + 1e-9, length);
  ExpectMean(views, 384, UniformDeviation(256, 512), length);
  for (const View& view : views) {
    EXPECT_LE(view.box.top + view.box.height, 375 + 1e-9);
    EXPECT_LE(view.box.left + view.box.width, 500 + 1e-9);
  }
}

TEST(DrawView, ScaledRandomDrawsTheLargestLengthToo) {
  AugmentOptions options = To224(Cropping::kScaledRandom);
  options.resize_max = 257;
  ExpectMean(ViewsOf(options, 257, 257), 256.5, 0.5, [](const View& v) { return std::round(224 * 257 / v.box.height); });
}

TEST(DrawView, TheCentreIsTheMiddleOfTheScaledImage) {
  EXPECT_EQ(DrawView(To224(Cropping::kCentre), 1, 2, 3, 256, 256).box, (Box{16, 16, 224, 224}));
  EXPECT_EQ(DrawView(To224(Cropping::kCentre), 1, 2, 3, 512, 768).box, (Box{32, 160, 448, 448}));
}

TEST(DrawView, HalfOfTheImagesAreMirrored) {
  AugmentOptions options = To224(Cropping::kWhole);
  options.mirror = true;
  ExpectMean(ViewsOf(options, 9, 9), 0.5, 0.5, [](const View& v) { return v.mirrored ? 1.0 : 0.0; });
}

TEST(DrawView, ColoursChangeWithinTheirRanges) {
  AugmentOptions options = To224(Cropping::kWhole);
  options.brightness = 0.4;
  options.contrast = 0.2;
  options.saturation = 3;
  options.hue = 0.1;
  const std::vector<View> views = ViewsOf(options, 9, 9);
  ExpectWithin(views, 0.6, 1.4, [](const View& v) { return v.brightness; });
  ExpectMean(views, 1, UniformDeviation(0.6, 1.4), [](const View& v) { return v.brightness; });
  ExpectWithin(views, 0.8, 1.2, [](const View& v) { return v.contrast; });
  ExpectWithin(views, 0, 4, [](const View& v) { return v.saturation; });  // never below 0
  ExpectWithin(views, -0.1, 0.1, [](const View& v) { return v.hue; });
  ExpectMean(views, 0, UniformDeviation(-0.1, 0.1), [](const View& v) { return v.hue; });
}

TEST(DrawView, LightHasTheDeviationsOfItsComponents) {
  AugmentOptions options = To224(Cropping::kWhole);
  options.lighting = 0.1;
  const std::vector<View> views = ViewsOf(options, 9, 9);
  const double first = 255 * 0.1 * 0.2175 * 0.5675, second = 255 * 0.1 * 0.0188 * 0.7192,
               third = 255 * 0.1 * 0.0045 * 0.4009;
  const double variance = first * first + second * second + third * third;
  ExpectMean(views, 0, std::sqrt(variance), [](const View& v) { return v.light[0]; });
  ExpectMean(views, variance, std::sqrt(2.0) * variance, [](const View& v) { return v.light[0] * v.light[0]; });
}

TEST(DrawView, CutoutHasItsMiddleAnywhere) {
  AugmentOptions options = {.height = 32, .width = 40, .cutout = 8};
  const std::vector<View> views = ViewsOf(options, 32, 40);
  ExpectWithin(views, 0, 27, [](const View& v) { return static_cast<double>(v.cut_top); });
  ExpectWithin(views, 0, 35, [](const View& v) { return static_cast<double>(v.cut_left); });
  ExpectWithin(views, 4, 8, [](const View& v) { return static_cast<double>(v.cut_height); });
  for (const View& view : views) EXPECT_LE(view.cut_left + view.cut_width, 40);
}

TEST(AugmentOptions, NameWhatCannotBeMeant) {
  const AugmentOptions good = To224(Cropping::kRandomResized);
  EXPECT_EQ(good.Check(), absl::OkStatus());
  AugmentOptions framed = To224(Cropping::kCentre);
  framed.frame = 16;
  framed.resize = 224 - 2 * 16;
  EXPECT_EQ(framed.Check(), absl::OkStatus()) << "what is cut takes what the frame leaves";
  const auto expect = [&](const std::function<void(AugmentOptions&)>& change, const std::string& message) {
    AugmentOptions options = good;
    change(options);
    EXPECT_EQ(options.Check().code(), absl::StatusCode::kFailedPrecondition) << message;
    EXPECT_THAT(std::string(options.Check().message()), HasSubstr(message));
  };
  expect([](AugmentOptions& o) { o.height = 0; }, "height: expected 1 to 65536, found 0");
  expect([](AugmentOptions& o) { o.width = -3; }, "width: expected 1 to 65536, found -3");
  expect([](AugmentOptions& o) { o.channels = 4; }, "channels: expected 1 or 3, found 4");
  expect([](AugmentOptions& o) { o.frame = -1; }, "frame: expected 0 to less than half of 224 x 224 pixels, found -1");
  expect([](AugmentOptions& o) { o.frame = 112; }, "frame: expected 0 to less than half");
  expect([](AugmentOptions& o) { o.pad = -1; }, "pad: expected 0 to 4096, found -1");
  expect([](AugmentOptions& o) { o.least_area = 0; }, "least_area: expected more than 0, at most 1, found 0");
  expect([](AugmentOptions& o) { o.most_area = 1.5; }, "most_area: expected least_area to 1, found 1.5");
  expect([](AugmentOptions& o) { o.least_aspect = NAN; }, "least_aspect: expected more than 0");
  expect([](AugmentOptions& o) { o.most_aspect = 0.5; }, "most_aspect: expected least_aspect or more, found 0.5");
  expect([](AugmentOptions& o) { o.brightness = -0.1; }, "brightness: expected 0 or more, found -0.1");
  expect([](AugmentOptions& o) { o.hue = 0.6; }, "hue: expected at most half a turn, 0.5, found 0.6");
  expect([](AugmentOptions& o) { o.channels = 1, o.saturation = 0.5; },
         "saturation: expected 0, since the images are grey, found 0.5");
  expect([](AugmentOptions& o) { o.cutout = -1; }, "cutout: expected 0 to 65536, found -1");
  expect([](AugmentOptions& o) { o.cropping = Cropping::kCentre, o.resize = 200; },
         "resize: expected 224 (what is cut) to 65536, found 200");
  expect([](AugmentOptions& o) { o.cropping = Cropping::kScaledRandom, o.resize_max = 250; },
         "resize_max: expected 0, or 256 (resize) to 65536, found 250");
}

}  // namespace
}  // namespace colonnade::data
