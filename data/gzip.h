// Bytes of a file, unpacked where they are gzip.
#ifndef COLONNADE_DATA_GZIP_H_
#define COLONNADE_DATA_GZIP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

// How many times as large as what it is packed in anything is at most: 258 bytes for two bits.
inline constexpr int64_t kLargestDeflateRatio = 1032;

// Returns what `bytes` unpack to, or `bytes` themselves where they do not begin with gzip's mark. InvalidArgument where the
// stream is damaged or cut, or unpacks to more than `limit_bytes`, beyond which nothing is allocated.
absl::StatusOr<std::string> Unpack(absl::string_view bytes, int64_t limit_bytes);

// Returns the first `count` bytes of that, or all where they are fewer: a header, which says how large the rest may be.
absl::StatusOr<std::string> UnpackStart(absl::string_view bytes, int64_t count);

// Returns InvalidArgument where `bytes` are gzip of too few to unpack to `count` bytes: found before anything is unpacked.
absl::Status CheckMayHold(absl::string_view bytes, int64_t count);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_GZIP_H_
