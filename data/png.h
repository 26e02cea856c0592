// PNG by libpng. Internal to data/: decode.h is the interface.
#ifndef COLONNADE_DATA_PNG_H_
#define COLONNADE_DATA_PNG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/decode.h"
#include "data/image.h"
#include "data/part.h"

namespace colonnade::data {

absl::StatusOr<ImageHeader> ReadPngHeader(absl::string_view file);

// Decodes `part` of the image. What stands behind its last row is read only where that is the last of the image, or where
// rows are interlaced.
absl::StatusOr<Image> DecodePng(absl::string_view file, int64_t channels, const Part& part, std::vector<uint8_t> room);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_PNG_H_
