// Whole rows and columns of an image, and how rows of a file become rows of an Image. Internal to data/.
#ifndef COLONNADE_DATA_PART_H_
#define COLONNADE_DATA_PART_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image.h"

namespace colonnade::data {

// The most bytes that decoding an image may hold: its pixels, and the coefficients or rows that the library keeps.
inline constexpr int64_t kMostBytes = int64_t{512} << 20;

struct Part {
  int64_t top = 0, left = 0, bottom = INT64_MAX, right = INT64_MAX;  // the last two are behind the last ones
};

// Returns `part` as far as it lies in an image of height x width; InvalidArgument where none of it does.
absl::StatusOr<Part> ClipTo(const Part& part, int64_t height, int64_t width);

// Return InvalidArgument where an image may not be decoded: it has no pixels, or too many, or needs more than kMostBytes.
absl::Status CheckExtents(int64_t height, int64_t width);
absl::Status CheckMemory(int64_t bytes);

// Returns the luma of a colour as libjpeg weighs it, with 16 fractional bits.
inline uint8_t LumaOf(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}
void RgbToGrey(const uint8_t* rgb, int64_t count, uint8_t* grey);
void GreyToRgb(const uint8_t* grey, int64_t count, uint8_t* rgb);

// Makes an image of the size of `part` in the memory of `room`. All of its rows are still to be filled.
Image EmptyImage(const Part& part, int64_t channels, std::vector<uint8_t> room);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_PART_H_
