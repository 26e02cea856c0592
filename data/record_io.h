// The framing of MXNet's RecordIO. Of what a record holds, image_records.h knows.
//
// A record is one part or several. A part is the magic (u32), its kind and length (u32: kind << 29 | bytes), its bytes, and
// zeros up to the next multiple of 4; all little-endian. Where a payload has the magic at a multiple of 4, the writer splits
// it there into parts, of which the reader puts the magic back between. So each magic at a multiple of 4 of a file begins a
// part, which is how a damaged file can be read on. There is no checksum: changed bytes of a payload are not noticed.
// Source: dmlc-core, include/dmlc/recordio.h, since magic and kinds have these values.
#ifndef COLONNADE_DATA_RECORD_IO_H_
#define COLONNADE_DATA_RECORD_IO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/byte_source.h"

namespace colonnade::data {

inline constexpr uint32_t kRecordMagic = 0xced7230a;
inline constexpr int64_t kPartHeaderBytes = 8;

// Where a record is.
struct RecordPlace {
  int64_t offset = 0, end = 0;  // of its first magic, and behind its last zero
  int64_t payload_bytes = 0;    // with the magics put back
  bool operator==(const RecordPlace&) const = default;
};

// Returns the record at `offset`. InvalidArgument with offset, expected and found where there is none, or not all of it.
absl::StatusOr<RecordPlace> RecordAt(const ByteSource& file, int64_t offset);

// Returns all records of a file, from its headers. InvalidArgument naming the first that is damaged.
absl::StatusOr<std::vector<RecordPlace>> ScanRecords(const ByteSource& file);

// All records whose headers and lengths fit, of a file that may be damaged anywhere; all of it is read.
struct RecoveredRecords {
  std::vector<RecordPlace> records;
  int64_t gaps = 0, skipped_bytes = 0;  // what lies before, between and behind them
};
absl::StatusOr<RecoveredRecords> RecoverRecords(const ByteSource& file);

// Returns the payload, in `room`. InvalidArgument where the record is not what it was when its place was found.
absl::StatusOr<absl::string_view> ReadRecord(const ByteSource& file, const RecordPlace& place, std::string& room);

// Returns the first `bytes` of the payload, or all of it where it has fewer, in `room`. Errors as ReadRecord's.
absl::StatusOr<absl::string_view> ReadRecordStart(const ByteSource& file, const RecordPlace& place, int64_t bytes,
                                                  std::string& room);

uint32_t LittleEndian32(const char* bytes);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_RECORD_IO_H_
