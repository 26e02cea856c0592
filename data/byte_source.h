// Bytes that are read at any place: a file (file.h) or, in tests, memory.
#ifndef COLONNADE_DATA_BYTE_SOURCE_H_
#define COLONNADE_DATA_BYTE_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace colonnade::data {

// Thread rule: any number of threads may read at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size() const = 0;
  // Fills `to` from `offset` on. REQUIRES: offset >= 0. InvalidArgument where the source ends before, DataLoss where it
  // cannot be read.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<char> to) const = 0;
};

class BytesInMemory final : public ByteSource {
 public:
  explicit BytesInMemory(absl::string_view bytes) : bytes_(bytes) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const override {
    if (offset > size() || static_cast<int64_t>(to.size()) > size() - offset) {
      return absl::InvalidArgumentError("expected more bytes, found the end");
    }
    std::copy_n(bytes_.begin() + offset, to.size(), to.begin());
    return absl::OkStatus();
  }

 private:
  absl::string_view bytes_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_BYTE_SOURCE_H_
