#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace colonnade::data {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;
constexpr size_t kChunk = size_t{1} << 17;

bool IsGzip(absl::string_view bytes) { return bytes.size() >= 2 && bytes.substr(0, 2) == "\x1f\x8b"; }

struct Inflated {
  std::string bytes;
  int result = Z_OK;  // Z_STREAM_END: all of it
  int64_t packed_bytes_left = 0;
};

// Unpacks until the streams end, are found damaged, or have given `most` bytes. Allocates no more than `most`.
absl::StatusOr<Inflated> Inflate(absl::string_view bytes, size_t most) {
  if (bytes.size() > UINT_MAX) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected gzip of at most %d bytes, found %d", UINT_MAX, bytes.size()));
  }
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return absl::ResourceExhaustedError("zlib cannot be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  Inflated out;
  out.bytes.reserve(std::min(most, bytes.size() * size_t{kLargestDeflateRatio}));
  while (out.result == Z_OK && out.bytes.size() < most) {
    const size_t before = out.bytes.size(), room = std::min(kChunk, most - before);
    out.bytes.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.bytes.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    out.result = inflate(&stream, Z_NO_FLUSH);
    out.bytes.resize(out.bytes.size() - stream.avail_out);
    // gzip allows several streams one after the other.
    const bool another =
        out.result == Z_STREAM_END && stream.avail_in >= 2 && stream.next_in[0] == 0x1f && stream.next_in[1] == 0x8b;
    if (another) out.result = inflateReset(&stream);
  }
  inflateEnd(&stream);
  out.packed_bytes_left = stream.avail_in;
  return out;
}

absl::Status CutOrDamaged() {
  return absl::InvalidArgumentError("expected a whole gzip stream, found one that is cut or damaged");
}

}  // namespace

absl::StatusOr<std::string> UnpackStart(absl::string_view bytes, int64_t count) {
  if (!IsGzip(bytes)) return std::string(bytes.substr(0, static_cast<size_t>(count)));
  ASSIGN_OR_RETURN(Inflated start, Inflate(bytes, static_cast<size_t>(count)));
  if (start.result != Z_OK && start.result != Z_STREAM_END) return CutOrDamaged();
  return std::move(start.bytes);
}

absl::Status CheckMayHold(absl::string_view bytes, int64_t count) {
  const int64_t most = static_cast<int64_t>(bytes.size()) * kLargestDeflateRatio;
  if (!IsGzip(bytes) || count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected gzip that unpacks to %d bytes, found %d bytes, of at most %d", count, bytes.size(), most));
}

absl::StatusOr<std::string> Unpack(absl::string_view bytes, int64_t limit_bytes) {
  if (!IsGzip(bytes)) return std::string(bytes);
  ASSIGN_OR_RETURN(Inflated all, Inflate(bytes, static_cast<size_t>(limit_bytes) + 1));
  if (static_cast<int64_t>(all.bytes.size()) > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected gzip that unpacks to at most %d bytes, found more", limit_bytes));
  }
  if (all.result != Z_STREAM_END) return CutOrDamaged();
  if (all.packed_bytes_left != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected one gzip stream, found %d bytes after it", all.packed_bytes_left));
  }
  return std::move(all.bytes);
}

}  // namespace colonnade::data
