#include "data/colour.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/part.h"

namespace colonnade::data {
namespace {

using ByteTable = std::array<uint8_t, 256>;

uint8_t ToByte(double value) { return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0))); }

ByteTable TableOf(const std::function<double(double)>& change) {
  ByteTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = ToByte(change(v));
  return table;
}

void LookUp(const ByteTable& table, absl::Span<uint8_t> pixels) {
  for (uint8_t& pixel : pixels) pixel = table[pixel];
}

double MeanGrey(int64_t channels, absl::Span<const uint8_t> pixels) {
  int64_t sum = 0;
  if (channels == 1) {
    for (uint8_t pixel : pixels) sum += pixel;
  } else {
    for (size_t i = 0; i < pixels.size(); i += 3) sum += LumaOf(pixels[i], pixels[i + 1], pixels[i + 2]);
  }
  return static_cast<double>(sum * channels) / static_cast<double>(pixels.size());
}

void ChangeSaturation(double saturation, absl::Span<uint8_t> pixels) {
  constexpr int kBits = 14;  // products stay below 2^31 up to a factor of 500
  const int own = static_cast<int>(std::lround(std::min(saturation, 500.0) * (1 << kBits))), grey = (1 << kBits) - own;
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const int luma = LumaOf(pixels[i], pixels[i + 1], pixels[i + 2]), from_grey = grey * luma + (1 << (kBits - 1));
    for (size_t c = i; c < i + 3; ++c) {
      pixels[c] = static_cast<uint8_t>(std::clamp((own * pixels[c] + from_grey) >> kBits, 0, 255));
    }
  }
}

// Where a colour stands on the circle, in sixths of a turn from red by green to blue. REQUIRES: range > 0.
float SixthsOf(float red, float green, float blue, float largest, float range) {
  if (largest == red) return (green - blue) / range;
  if (largest == green) return 2 + (blue - red) / range;
  return 4 + (red - green) / range;
}

// How much of its range a channel is below the largest one, when the colour stands so far behind the channel's own place.
// REQUIRES: 0 <= sixths < 18.
float BelowLargest(float sixths) {
  sixths = sixths >= 12 ? sixths - 12 : sixths;
  sixths = sixths >= 6 ? sixths - 6 : sixths;
  return std::clamp(std::min(sixths, 4 - sixths), 0.0f, 1.0f);
}

void TurnHue(double turns, absl::Span<uint8_t> pixels) {
  constexpr float kPlaces[] = {5, 3, 1};
  const float turned = static_cast<float>(6 * (turns - std::floor(turns)));
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const float red = pixels[i], green = pixels[i + 1], blue = pixels[i + 2];
    const float largest = std::max({red, green, blue}), range = largest - std::min({red, green, blue});
    if (range == 0) continue;
    const float sixths = SixthsOf(red, green, blue, largest, range) + turned;
    for (size_t c = 0; c < 3; ++c) {
      pixels[i + c] = static_cast<uint8_t>(largest - range * BelowLargest(sixths + kPlaces[c]) + 0.5f);
    }
  }
}

void AddLight(const std::array<double, 3>& light, absl::Span<uint8_t> pixels) {
  for (size_t c = 0; c < 3; ++c) {
    const ByteTable table = TableOf([&](double v) { return v + light[c]; });
    for (size_t i = c; i < pixels.size(); i += 3) pixels[i] = table[pixels[i]];
  }
}

}  // namespace

void ChangeColours(const View& view, int64_t channels, absl::Span<uint8_t> pixels) {
  if (view.brightness != 1) LookUp(TableOf([&](double v) { return view.brightness * v; }), pixels);
  if (view.contrast != 1) {
    const double rest = (1 - view.contrast) * MeanGrey(channels, pixels);
    LookUp(TableOf([&](double v) { return view.contrast * v + rest; }), pixels);
  }
  if (channels != 3) return;
  if (view.saturation != 1) ChangeSaturation(view.saturation, pixels);
  if (view.hue != 0) TurnHue(view.hue, pixels);
  if (view.light != std::array<double, 3>{0, 0, 0}) AddLight(view.light, pixels);
}

std::array<double, 3> LightOf(const std::array<double, 3>& alphas) {
  // Of the covariance of RGB in 0..1 over ImageNet's training images: the roots of its eigenvalues, and its eigenvectors as
  // columns, as published with the ResNets of Facebook in 2016.
  constexpr double kScales[] = {0.2175, 0.0188, 0.0045};
  constexpr double kVectors[3][3] = {{-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
  std::array<double, 3> light = {0, 0, 0};
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 3; ++i) light[c] += 255 * kVectors[c][i] * kScales[i] * alphas[i];
  }
  return light;
}

}  // namespace colonnade::data
