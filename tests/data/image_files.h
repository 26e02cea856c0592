// Image files made by the libraries themselves, and what tests compare pixels by.
#ifndef COLONNADE_TESTS_DATA_IMAGE_FILES_H_
#define COLONNADE_TESTS_DATA_IMAGE_FILES_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/image.h"

namespace colonnade::data {

// Waves, edges and some noise; the same for the same arguments.
Image Pattern(int64_t height, int64_t width, int64_t channels, uint32_t seed = 1);
Image Uniform(int64_t height, int64_t width, const std::vector<uint8_t>& pixel);

struct JpegLook {
  int quality = 90;
  std::vector<std::pair<int, int>> sampling;  // across and down, of each component; the library's own where it is empty
  bool progressive = false, arithmetic = false;
  int restart_rows = 0;
  bool optimised = false;  // Huffman codes of its own, of what occurs in it
  bool ycck = false;       // of 4 channels
  bool adobe = true;       // likewise: with Adobe's marker
  bool rgb_file = false;   // RGB as it is, not YCbCr
};
std::string JpegOf(const Image& image, const JpegLook& look = {});

struct PngLook {
  int bits = 8;
  int color_type = -1;  // as libpng says it; -1: as the channels are
  bool interlaced = false;
};
// The pixels are those of the file: samples of 16 bits are two bytes each, of fewer than 8 bits packed; a palette is a ramp
// of (i, 255 - i, 2·i).
std::string PngOf(int64_t height, int64_t width, const std::vector<uint8_t>& pixels, const PngLook& look);
std::string PngOf(const Image& image);

// From `from` to `to`; and a box of whole pixels in an image of height x width.
int Drawn(std::mt19937& random, int from, int to);
Box DrawnBox(std::mt19937& random, int64_t height, int64_t width);

// FNV-1a of 64 bits.
uint64_t ChecksumOf(absl::string_view bytes, uint64_t start = 0xcbf29ce484222325);
uint64_t ChecksumOf(const Image& image, uint64_t start = 0xcbf29ce484222325);

// Rows and columns of an image.
Image PartOf(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

// The files in a tar of plain names, in its order.
std::vector<std::string> FilesOfTar(absl::string_view tar);

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_IMAGE_FILES_H_
