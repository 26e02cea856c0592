#include "data/gzip.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"

namespace colonnade::data {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;
constexpr size_t kChunk = size_t{1} << 20;

}  // namespace

absl::StatusOr<std::string> Unpack(absl::string_view bytes, int64_t limit_bytes) {
  if (bytes.size() < 2 || bytes.substr(0, 2) != "\x1f\x8b") return std::string(bytes);
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return absl::ResourceExhaustedError("zlib cannot be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string unpacked;
  int result = Z_OK;
  while (result == Z_OK && static_cast<int64_t>(unpacked.size()) <= limit_bytes) {
    const size_t before = unpacked.size();
    unpacked.resize(before + kChunk);
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + before);
    stream.avail_out = static_cast<uInt>(kChunk);
    result = inflate(&stream, Z_NO_FLUSH);
    unpacked.resize(unpacked.size() - stream.avail_out);
    if (result == Z_BUF_ERROR && stream.avail_in == 0) break;
  }
  inflateEnd(&stream);
  if (static_cast<int64_t>(unpacked.size()) > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrFormat("expected gzip that unpacks to at most %d bytes, found more", limit_bytes));
  }
  if (result != Z_STREAM_END) return absl::InvalidArgumentError("expected a whole gzip stream, found one that is cut or damaged");
  if (stream.avail_in != 0) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one gzip stream, found %d bytes after it", stream.avail_in));
  }
  return unpacked;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrFormat("cannot read %s: no such file", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return absl::DataLossError(absl::StrFormat("cannot read %s: %s", path, std::strerror(errno)));
  return bytes;
}

}  // namespace colonnade::data
