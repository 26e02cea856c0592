// Images of bytes, and boxes of them.
#ifndef COLONNADE_DATA_IMAGE_H_
#define COLONNADE_DATA_IMAGE_H_

#include <cstdint>
#include <vector>

namespace colonnade::data {

// Pixels row by row, channels innermost: [H, W, C]. Of three channels the order is red, green, blue; of one it is grey.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// A part of an image, in pixels from its upper left corner; edges may lie within pixels.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IMAGE_H_
