// Images and labels in memory, as files give them.
#ifndef COLONNADE_DATA_IMAGE_SET_H_
#define COLONNADE_DATA_IMAGE_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "program/types.h"

namespace colonnade::data {

struct ImageSet {
  std::string name;             // "digits train"
  program::Shape sample_shape;  // {C, H, W}
  std::vector<uint8_t> pixels;  // [N, C, H, W]
  std::vector<int32_t> labels;  // [N], from 0
  int64_t classes = 0;
  double largest_value = 255;          // the pixel value that stands for 1
  bool are_all_classes_meant = false;  // also those beyond the largest label

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// Returns InvalidArgument with expected and found where `shape` is no image's {C, H, W}, each at least 1.
absl::Status CheckImageShape(const program::Shape& shape);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IMAGE_SET_H_
