#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "data/colour.h"
#include "data/resample.h"
#include "program/formulas/philox.h"

namespace colonnade::data {
namespace {

// The streams of random numbers, one for each thing that is drawn: numbers of one do not depend on whether others are drawn.
enum Stream : uint32_t { kPlace = 0, kMirror = 1, kJitter = 2, kLight = 3, kCut = 4, kAttempts = 16 };
constexpr uint32_t kMostAttempts = 10;

constexpr int64_t kMostExtent = 1 << 16, kMostPad = 1 << 12;

struct SampleKey {
  uint64_t seed = 0, epoch = 0, sample = 0;

  program::Philox4 Block(uint32_t stream) const {
    return program::RandomBlock(seed, program::RandomPurpose::kAugmentation, stream, epoch, sample);
  }
  double Normal(uint32_t stream, uint64_t i) const {
    return program::Gaussian(seed, program::RandomPurpose::kAugmentation, stream, epoch, 4 * sample + i);
  }
};

double Between(uint32_t word, double low, double high) { return low + program::UniformFloat(word) * (high - low); }

// The bias is below count / 2^32.
int64_t Below(uint32_t word, int64_t count) {
  return static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(count) >> 32);
}

Box BoxOf(int64_t top, int64_t left, int64_t height, int64_t width) {
  return {static_cast<double>(top), static_cast<double>(left), static_cast<double>(height), static_cast<double>(width)};
}

// Shifted by whole pixels of what comes out, so that `pad` means the same for images of any size.
Box PaddedBox(const AugmentOptions& options, const SampleKey& key, int64_t height, int64_t width) {
  const program::Philox4 r = key.Block(kPlace);
  const int64_t places = 2 * options.pad + 1;
  // Other draws take Below, which is as even and takes the high bits; this one stays, so that runs of before can be
  // repeated.
  const int64_t down = r.v[0] % places - options.pad, right = r.v[1] % places - options.pad;
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  return {static_cast<double>(-down) * rows / static_cast<double>(options.height),
          static_cast<double>(-right) * columns / static_cast<double>(options.width), rows, columns};
}

// The middle, of the aspect ratio that is asked for and nearest.
Box MiddleOfAspect(const AugmentOptions& options, int64_t height, int64_t width) {
  const double aspect =
      std::clamp(static_cast<double>(width) / static_cast<double>(height), options.least_aspect, options.most_aspect);
  const int64_t rows = std::clamp<int64_t>(std::lround(static_cast<double>(width) / aspect), 1, height);
  const int64_t columns = std::clamp<int64_t>(std::lround(static_cast<double>(height) * aspect), 1, width);
  return BoxOf((height - rows) / 2, (width - columns) / 2, rows, columns);
}

Box RandomResizedBox(const AugmentOptions& options, const SampleKey& key, int64_t height, int64_t width) {
  for (uint32_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    const program::Philox4 r = key.Block(kAttempts + attempt);
    const double area = static_cast<double>(height * width) * Between(r.v[0], options.least_area, options.most_area);
    const double aspect = std::exp(Between(r.v[1], std::log(options.least_aspect), std::log(options.most_aspect)));
    const int64_t rows = std::lround(std::sqrt(area / aspect)), columns = std::lround(std::sqrt(area * aspect));
    if (rows < 1 || rows > height || columns < 1 || columns > width) continue;
    return BoxOf(Below(r.v[2], height - rows + 1), Below(r.v[3], width - columns + 1), rows, columns);
  }
  return MiddleOfAspect(options, height, width);
}

// The box whose corner lies at `top` and `left` of the image scaled so that its shorter side has `length` pixels.
Box BoxOfScaled(const AugmentOptions& options, double scale, int64_t top, int64_t left) {
  return {static_cast<double>(top) * scale, static_cast<double>(left) * scale, static_cast<double>(options.height) * scale,
          static_cast<double>(options.width) * scale};
}

Box ScaledBox(const AugmentOptions& options, const SampleKey& key, int64_t height, int64_t width) {
  const program::Philox4 r = key.Block(kPlace);
  const bool random = options.cropping == Cropping::kScaledRandom;
  const int64_t lengths = random ? std::max<int64_t>(options.resize_max - options.resize, 0) + 1 : 1;
  const int64_t length = options.resize + Below(r.v[2], lengths), shorter = std::min(height, width);
  const int64_t room_down = height * length / shorter - options.height,
                room_right = width * length / shorter - options.width;
  const double scale = static_cast<double>(shorter) / static_cast<double>(length);
  if (!random) return BoxOfScaled(options, scale, room_down / 2, room_right / 2);
  return BoxOfScaled(options, scale, Below(r.v[0], room_down + 1), Below(r.v[1], room_right + 1));
}

Box DrawBox(const AugmentOptions& options, const SampleKey& key, int64_t height, int64_t width) {
  switch (options.cropping) {
    case Cropping::kWhole:
      break;
    case Cropping::kPadded:
      return PaddedBox(options, key, height, width);
    case Cropping::kRandomResized:
      return RandomResizedBox(options, key, height, width);
    case Cropping::kScaledRandom:
    case Cropping::kCentre:
      return ScaledBox(options, key, height, width);
  }
  return BoxOf(0, 0, height, width);
}

// A factor around 1, never below 0.
double Factor(uint32_t word, double range) { return range == 0 ? 1 : Between(word, std::max(0.0, 1 - range), 1 + range); }

void DrawColours(const AugmentOptions& options, const SampleKey& key, View& view) {
  const program::Philox4 r = key.Block(kJitter);
  view.brightness = Factor(r.v[0], options.brightness);
  view.contrast = Factor(r.v[1], options.contrast);
  view.saturation = Factor(r.v[2], options.saturation);
  view.hue = options.hue == 0 ? 0 : Between(r.v[3], -options.hue, options.hue);
  if (options.lighting == 0) return;
  std::array<double, 3> alphas;
  for (size_t i = 0; i < alphas.size(); ++i) alphas[i] = options.lighting * key.Normal(kLight, i);
  view.light = LightOf(alphas);
}

// Its middle is any pixel, so that it may reach beyond the image.
void DrawCut(const AugmentOptions& options, const SampleKey& key, View& view) {
  if (options.cutout == 0) return;
  const program::Philox4 r = key.Block(kCut);
  const int64_t top = Below(r.v[0], options.height) - options.cutout / 2;
  const int64_t left = Below(r.v[1], options.width) - options.cutout / 2;
  view.cut_top = std::max<int64_t>(top, 0);
  view.cut_left = std::max<int64_t>(left, 0);
  view.cut_height = std::min(top + options.cutout, options.height) - view.cut_top;
  view.cut_width = std::min(left + options.cutout, options.width) - view.cut_left;
}

void Cut(const AugmentOptions& options, const View& view, absl::Span<uint8_t> out) {
  for (int64_t y = view.cut_top; y < view.cut_top + view.cut_height; ++y) {
    std::memset(out.data() + (y * options.width + view.cut_left) * options.channels, options.fill,
                static_cast<size_t>(view.cut_width * options.channels));
  }
}

// By how many pixels of what comes out a padded image has moved.
int64_t Moved(double start, double length, int64_t count) {
  return -std::llround(start * static_cast<double>(count) / length);
}

void MoveRow(int64_t pixels, int64_t channels, int64_t right, const uint8_t* from, uint8_t* to) {
  const int64_t kept = std::max<int64_t>(pixels - std::abs(right), 0), come_in = (pixels - kept) * channels;
  const int64_t bytes = kept * channels;
  std::memmove(to + (right > 0 ? come_in : 0), from + (right > 0 ? 0 : come_in), static_cast<size_t>(bytes));
  std::memset(to + (right > 0 ? 0 : bytes), 0, static_cast<size_t>(come_in));
}

// Moves an image in its place; what comes in is zero.
void Move(const AugmentOptions& options, int64_t down, int64_t right, absl::Span<uint8_t> out) {
  const int64_t stride = options.width * options.channels;
  for (int64_t i = 0; i < options.height; ++i) {
    const int64_t y = down > 0 ? options.height - 1 - i : i;  // so that no row is written before it is read
    uint8_t* to = out.data() + y * stride;
    const bool comes_in = y < down || y - down >= options.height;
    MoveRow(options.width, options.channels, comes_in ? options.width : right, comes_in ? to : to - down * stride, to);
  }
}

absl::Status Expect(bool holds, absl::string_view field, absl::string_view expected, double found) {
  if (holds) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat("%s: expected %s, found %.10g", field, expected, found));
}

absl::Status CheckPlaces(const AugmentOptions& o) {
  const int64_t longer = std::max(o.height, o.width) - 2 * o.frame;
  RETURN_IF_ERROR(Expect(o.pad >= 0 && o.pad <= kMostPad, "pad", absl::StrFormat("0 to %d", kMostPad), o.pad));
  RETURN_IF_ERROR(Expect(0 < o.least_area && o.least_area <= 1, "least_area", "more than 0, at most 1", o.least_area));
  RETURN_IF_ERROR(Expect(o.least_area <= o.most_area && o.most_area <= 1, "most_area", "least_area to 1", o.most_area));
  RETURN_IF_ERROR(Expect(0 < o.least_aspect, "least_aspect", "more than 0", o.least_aspect));
  RETURN_IF_ERROR(Expect(o.least_aspect <= o.most_aspect && std::isfinite(o.most_aspect), "most_aspect",
                         "least_aspect or more", o.most_aspect));
  if (o.cropping != Cropping::kScaledRandom && o.cropping != Cropping::kCentre) return absl::OkStatus();
  RETURN_IF_ERROR(Expect(longer <= o.resize && o.resize <= kMostExtent, "resize",
                         absl::StrFormat("%d (what is cut) to %d", longer, kMostExtent), o.resize));
  return Expect(o.resize_max == 0 || (o.resize <= o.resize_max && o.resize_max <= kMostExtent), "resize_max",
                absl::StrFormat("0, or %d (resize) to %d", o.resize, kMostExtent), o.resize_max);
}

absl::Status CheckJitter(const AugmentOptions& o) {
  const std::pair<const char*, double> of_any[] = {{"brightness", o.brightness}, {"contrast", o.contrast}};
  const std::pair<const char*, double> of_three[] = {{"saturation", o.saturation}, {"hue", o.hue}, {"lighting", o.lighting}};
  for (const auto& [field, value] : of_any) {
    RETURN_IF_ERROR(Expect(0 <= value && std::isfinite(value), field, "0 or more", value));
  }
  for (const auto& [field, value] : of_three) {
    RETURN_IF_ERROR(Expect(0 <= value && std::isfinite(value), field, "0 or more", value));
    RETURN_IF_ERROR(Expect(value == 0 || o.channels == 3, field, "0, since the images are grey", value));
  }
  return Expect(o.hue <= 0.5, "hue", "at most half a turn, 0.5", o.hue);
}

}  // namespace

absl::Status AugmentOptions::Check() const {
  const std::string extents = absl::StrFormat("1 to %d", kMostExtent);
  RETURN_IF_ERROR(Expect(1 <= height && height <= kMostExtent, "height", extents, height));
  RETURN_IF_ERROR(Expect(1 <= width && width <= kMostExtent, "width", extents, width));
  RETURN_IF_ERROR(Expect(channels == 1 || channels == 3, "channels", "1 or 3", channels));
  RETURN_IF_ERROR(Expect(frame >= 0 && frame <= (std::min(height, width) - 1) / 2, "frame",
                         absl::StrFormat("0 to less than half of %d x %d pixels", height, width), frame));
  RETURN_IF_ERROR(CheckPlaces(*this));
  RETURN_IF_ERROR(CheckJitter(*this));
  return Expect(0 <= cutout && cutout <= kMostExtent, "cutout", absl::StrFormat("0 to %d", kMostExtent), cutout);
}

AugmentOptions Inside(AugmentOptions options) {
  options.height -= 2 * options.frame;
  options.width -= 2 * options.frame;
  options.frame = 0;
  return options;
}

View DrawView(const AugmentOptions& options, uint64_t seed, int64_t epoch, int64_t sample, int64_t height, int64_t width) {
  const SampleKey key = {seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample)};
  View view{.box = DrawBox(options, key, height, width)};
  view.mirrored = options.mirror && key.Block(kMirror).v[0] % 2 == 1;
  DrawColours(options, key, view);
  DrawCut(options, key, view);
  return view;
}

void Render(const AugmentOptions& options, const View& view, const Image& image, const Box& box, absl::Span<uint8_t> out) {
  const bool is_padded = options.cropping == Cropping::kPadded;
  const Axis rows = MakeAxis(is_padded ? 0 : box.top, box.height, image.height, options.height);
  const Axis columns = MakeAxis(is_padded ? 0 : box.left, box.width, image.width, options.width);
  Resample(image, rows, view.mirrored ? Mirrored(columns) : columns, out);
  if (is_padded) {
    const int64_t right = Moved(box.left, box.width, options.width);
    Move(options, Moved(box.top, box.height, options.height), view.mirrored ? -right : right, out);
  }
  ChangeColours(view, options.channels, out);
  Cut(options, view, out);
}

}  // namespace colonnade::data
