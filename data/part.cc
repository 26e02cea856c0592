#include "data/part.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "data/decode.h"

namespace colonnade::data {

absl::StatusOr<Part> ClipTo(const Part& part, int64_t height, int64_t width) {
  const Part clipped = {std::max<int64_t>(part.top, 0), std::max<int64_t>(part.left, 0), std::min(part.bottom, height),
                        std::min(part.right, width)};
  if (clipped.top < clipped.bottom && clipped.left < clipped.right) return clipped;
  return absl::InvalidArgumentError(
      absl::StrFormat("expected a part of an image of %d x %d, found rows %d to %d, columns %d to %d", height, width,
                      part.top, part.bottom, part.left, part.right));
}

absl::Status CheckExtents(int64_t height, int64_t width) {
  const bool is_bounded = height > 0 && width > 0 && height <= kMostRows && width <= kMostRows;
  if (is_bounded && height <= kMostPixels / width) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "expected an image of 1 to %d pixels, at most %d to a side, found %d x %d", kMostPixels, kMostRows, height, width));
}

absl::Status CheckMemory(int64_t bytes) {
  if (bytes <= kMostBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected an image that is decoded in at most %d bytes, found one that needs %d", kMostBytes, bytes));
}

void RgbToGrey(const uint8_t* rgb, int64_t count, uint8_t* grey) {
  for (int64_t i = 0; i < count; ++i, rgb += 3) grey[i] = LumaOf(rgb[0], rgb[1], rgb[2]);
}

void GreyToRgb(const uint8_t* grey, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i, rgb += 3) rgb[0] = rgb[1] = rgb[2] = grey[i];
}

Image EmptyImage(const Part& part, int64_t channels, std::vector<uint8_t> room) {
  Image image{part.bottom - part.top, part.right - part.left, channels, std::move(room)};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * channels));
  return image;
}

}  // namespace colonnade::data
