// The IDX format of MNIST: big-endian magic (two zero bytes, element type, number of dimensions), extents, elements.
#ifndef COLONNADE_DATA_IDX_H_
#define COLONNADE_DATA_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image_set.h"

namespace colonnade::data {

inline constexpr int64_t kMostIdxElements = int64_t{1} << 32;

// An array of unsigned bytes.
struct IdxArray {
  program::Shape shape;
  std::string bytes;
};

// Reads one array of u8, plain or gzip. InvalidArgument with `name`, expected and found where magic, type, rank or size is
// wrong.
absl::StatusOr<IdxArray> ParseIdx(absl::string_view file, const std::string& name, int rank);

// Reads images [N, H, W] and their labels [N] as one set of single-channel images. InvalidArgument where counts differ, the
// set is empty, or a label is not below `classes` (0: any up to 255, and the largest found counts).
absl::StatusOr<ImageSet> ParseIdxPair(absl::string_view images, const std::string& images_name, absl::string_view labels,
                                      const std::string& labels_name, int64_t classes);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IDX_H_
