// JPEG by libjpeg-turbo. Internal to data/: decode.h is the interface.
#ifndef COLONNADE_DATA_JPEG_H_
#define COLONNADE_DATA_JPEG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/decode.h"
#include "data/image.h"
#include "data/part.h"

namespace colonnade::data {

inline constexpr int kEighths = 8;  // the full scale

absl::StatusOr<ImageHeader> ReadJpegHeader(absl::string_view file);

// Decodes `part` of the image at scale eighths/8, whose height and width are those of the full one times that, rounded up.
// The pixels are those of decoding all of it at that scale. What stands behind the last row of `part` is read only where
// that is the last of the image.
absl::StatusOr<Image> DecodeJpeg(absl::string_view file, int64_t channels, int eighths, const Part& part,
                                 std::vector<uint8_t> room = {});

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_H_
