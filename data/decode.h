// Image files as pixels: JPEG by libjpeg-turbo, PNG by libpng, recognised from their first bytes.
//
// A file is bytes that somebody else wrote: whatever they are, decoding ends with an image or with InvalidArgument that says
// what is wrong (the caller adds which sample), within bounds of memory and time. A warning of libjpeg-turbo, such as data
// that end early, is an error; so is damage of a PNG's pixels, but not of its texts and profiles. Bounds: kMostPixels,
// kMostScans of a progressive JPEG and kMostBlocksOfScans in them, 512 MiB, and the pixels that a file of its size can hold.
// Thread rule: no state is shared; any thread may call anything.
#ifndef COLONNADE_DATA_DECODE_H_
#define COLONNADE_DATA_DECODE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image.h"

namespace colonnade::data {

class JpegIndex;

inline constexpr int64_t kMostPixels = 178'000'000, kMostRows = 65535;  // rows, and columns
inline constexpr int kMostScans = 500;
inline constexpr int64_t kMostBlocksOfScans = int64_t{32} << 20;  // 8 x 8 values, in all scans: about a second

enum class ImageFormat { kJpeg, kPng };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int64_t height = 0, width = 0;
  int64_t channels = 0;  // as stored: 1, 2 (grey and alpha), 3 or 4 (CMYK, or with alpha)
};
absl::StatusOr<ImageHeader> ReadImageHeader(absl::string_view file);

// Returns the whole image with 1 or 3 channels. Grey becomes three equal channels; colours become grey as the luma of JPEG
// (for PNG: 0.299 R + 0.587 G + 0.114 B); CMYK and YCCK become RGB; alpha is dropped; 16 bits become 8, rounded. EXIF's
// orientation is not applied, as training pipelines of the field do not. `room` is memory, of an image before, that the
// pixels take over.
absl::StatusOr<Image> DecodeImage(absl::string_view file, int64_t channels, std::vector<uint8_t> room = {});

// What covers `box` of the full image.
struct DecodedBox {
  Image image;
  Box box;                // in pixels of `image`
  bool by_index = false;  // decoded with an index
};
// Decodes as little as it can: at the smallest of JPEG's scales 1/8, 1/4 and 1/2 at which the box still has at least height
// x width pixels (or at full scale, where it has fewer), and of that the rows and columns that the box needs, with a margin
// of a pixel on each side for resampling where the image has one. These pixels are those of the whole image at that scale.
// What stands behind the last row is not looked at, so that DecodeImage alone finds damage there. With the `index` of the
// file only the MCUs around the box are decoded, where that is worth it, and the pixels are the same; that of another file
// is not used. REQUIRES: the box is not empty and lies in the image.
absl::StatusOr<DecodedBox> DecodeBox(absl::string_view file, int64_t channels, const Box& box, int64_t height, int64_t width,
                                     std::vector<uint8_t> room = {}, const JpegIndex* index = nullptr);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_DECODE_H_
