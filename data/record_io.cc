#include "data/record_io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace colonnade::data {
namespace {

constexpr int kLengthBits = 29;
constexpr uint32_t kMostPartBytes = (uint32_t{1} << kLengthBits) - 1;
constexpr int64_t kRecoveryChunk = 1 << 20;
enum PartKind : uint32_t { kWholeRecord = 0, kFirstPart = 1, kMiddlePart = 2, kLastPart = 3 };

int64_t PaddedBytes(int64_t bytes) { return (bytes + 3) / 4 * 4; }

struct PartHeader {
  uint32_t magic = 0, kind = 0;
  int64_t bytes = 0;
  int64_t total_bytes() const { return kPartHeaderBytes + PaddedBytes(bytes); }
  bool begins_record() const { return kind == kWholeRecord || kind == kFirstPart; }
  bool ends_record() const { return kind == kWholeRecord || kind == kLastPart; }
};

PartHeader PartHeaderOf(const char* bytes) {
  const uint32_t length = LittleEndian32(bytes + 4);
  return {LittleEndian32(bytes), length >> kLengthBits, length & kMostPartBytes};
}

absl::Status WrongPart(int64_t offset, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrFormat("at offset %d: %s", offset, what));
}

// The header of a part that fits into `size` bytes and is the first of a record or not.
absl::Status CheckPart(const PartHeader& part, int64_t offset, int64_t size, bool first) {
  if (part.magic != kRecordMagic) {
    return WrongPart(offset, absl::StrFormat("expected the magic 0x%08x, found 0x%08x", kRecordMagic, part.magic));
  }
  if (part.kind > kLastPart || part.begins_record() != first) {
    return WrongPart(
        offset,
        absl::StrFormat("expected %s, found a part of kind %d",
                        first ? "the beginning of a record (kind 0 or 1)" : "its next part (kind 2 or 3)", part.kind));
  }
  if (part.total_bytes() > size - offset) {
    return WrongPart(offset, absl::StrFormat("expected a part of %d bytes, found the end of the file after %d",
                                             part.total_bytes(), size - offset));
  }
  return absl::OkStatus();
}

absl::StatusOr<PartHeader> ReadPartHeader(const ByteSource& file, int64_t offset, bool first) {
  if (file.size() - offset < kPartHeaderBytes) {
    return WrongPart(offset, absl::StrFormat("expected a header of %d bytes, found the end of the file after %d",
                                             kPartHeaderBytes, std::max<int64_t>(0, file.size() - offset)));
  }
  char bytes[kPartHeaderBytes];
  RETURN_IF_ERROR(file.ReadAt(offset, bytes));
  const PartHeader part = PartHeaderOf(bytes);
  RETURN_IF_ERROR(CheckPart(part, offset, file.size(), first));
  return part;
}

// Adds a part to the record that it belongs to.
void Extend(RecordPlace& place, const PartHeader& part) {
  place.payload_bytes += part.bytes + (part.begins_record() ? 0 : static_cast<int64_t>(sizeof(kRecordMagic)));
  place.end += part.total_bytes();
}

// The offsets of all magics at multiples of 4.
absl::StatusOr<std::vector<int64_t>> FindMagics(const ByteSource& file) {
  std::vector<int64_t> offsets;
  const int64_t end = file.size() / 4 * 4;
  std::string chunk(static_cast<size_t>(std::min(kRecoveryChunk, end)), '\0');
  for (int64_t at = 0; at < end; at += static_cast<int64_t>(chunk.size())) {
    chunk.resize(static_cast<size_t>(std::min(kRecoveryChunk, end - at)));
    RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(chunk)));
    for (size_t i = 0; i < chunk.size(); i += 4) {
      if (LittleEndian32(chunk.data() + i) == kRecordMagic) offsets.push_back(at + static_cast<int64_t>(i));
    }
  }
  return offsets;
}

// Puts parts together as they come; a part that does not go on where the last one ended ends what was begun.
class Recovery {
 public:
  void Add(int64_t offset, const PartHeader& part) {
    if (part.begins_record()) {
      record_ = {offset, offset, 0};
    } else if (!is_open_ || record_.end != offset) {
      is_open_ = false;
      return;
    }
    Extend(record_, part);
    is_open_ = !part.ends_record();
    if (is_open_) return;
    out_.gaps += record_.offset > end_ ? 1 : 0;
    out_.skipped_bytes += record_.offset - end_;
    end_ = record_.end;
    out_.records.push_back(record_);
  }

  RecoveredRecords Finish(int64_t size) {
    out_.gaps += size > end_ ? 1 : 0;
    out_.skipped_bytes += size - end_;
    return std::move(out_);
  }

 private:
  RecoveredRecords out_;
  RecordPlace record_;
  bool is_open_ = false;
  int64_t end_ = 0;  // of the last record
};

std::string LittleEndianBytes(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

}  // namespace

uint32_t LittleEndian32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::StatusOr<RecordPlace> RecordAt(const ByteSource& file, int64_t offset) {
  RecordPlace place{offset, offset, 0};
  for (bool ended = false; !ended;) {
    ASSIGN_OR_RETURN(PartHeader part, ReadPartHeader(file, place.end, place.end == offset));
    Extend(place, part);
    ended = part.ends_record();
  }
  return place;
}

absl::StatusOr<std::vector<RecordPlace>> ScanRecords(const ByteSource& file) {
  std::vector<RecordPlace> records;
  for (int64_t at = 0; at < file.size(); at = records.back().end) {
    absl::StatusOr<RecordPlace> place = RecordAt(file, at);
    if (!place.ok()) {
      return absl::Status(place.status().code(), absl::StrFormat("record %d %s", records.size(), place.status().message()));
    }
    records.push_back(*place);
  }
  return records;
}

absl::StatusOr<RecoveredRecords> RecoverRecords(const ByteSource& file) {
  ASSIGN_OR_RETURN(std::vector<int64_t> magics, FindMagics(file));
  Recovery recovery;
  for (size_t i = 0; i < magics.size(); ++i) {
    const int64_t room = (i + 1 < magics.size() ? magics[i + 1] : file.size()) - magics[i];
    if (room < kPartHeaderBytes) continue;
    char bytes[kPartHeaderBytes];
    RETURN_IF_ERROR(file.ReadAt(magics[i], bytes));
    const PartHeader part = PartHeaderOf(bytes);
    // What is left of the room may have been a part whose magic is damaged.
    if (part.kind <= kLastPart && part.total_bytes() <= room) recovery.Add(magics[i], part);
  }
  return recovery.Finish(file.size());
}

absl::StatusOr<absl::string_view> ReadRecord(const ByteSource& file, const RecordPlace& place, std::string& room) {
  room.resize(static_cast<size_t>(place.end - place.offset));
  RETURN_IF_ERROR(file.ReadAt(place.offset, absl::MakeSpan(room)));
  const auto size = static_cast<int64_t>(room.size());
  int64_t filled = kPartHeaderBytes;  // the payload is put together in its place, behind the first header
  bool ended = false;
  for (int64_t at = 0; at < size && !ended;) {
    if (size - at < kPartHeaderBytes)
      return WrongPart(place.offset + at, "expected the header of a part, found the record's end");
    const PartHeader part = PartHeaderOf(room.data() + at);
    if (absl::Status status = CheckPart(part, at, size, at == 0); !status.ok()) {
      return WrongPart(place.offset,
                       absl::StrCat("expected the record that was there, found one changed ", status.message()));
    }
    // The magic that the split took out is that of this part's header.
    const int64_t magic = at == 0 ? 0 : static_cast<int64_t>(sizeof(kRecordMagic));
    std::memmove(room.data() + filled, room.data() + at, static_cast<size_t>(magic));
    std::memmove(room.data() + filled + magic, room.data() + at + kPartHeaderBytes, static_cast<size_t>(part.bytes));
    filled += magic + part.bytes;
    ended = part.ends_record();
    at += part.total_bytes();
  }
  if (!ended || filled - kPartHeaderBytes != place.payload_bytes) {
    return WrongPart(place.offset, absl::StrFormat("expected the record of %d bytes that was there, found another of %d",
                                                   place.payload_bytes, filled - kPartHeaderBytes));
  }
  return absl::string_view(room).substr(kPartHeaderBytes, static_cast<size_t>(place.payload_bytes));
}

absl::StatusOr<absl::string_view> ReadRecordStart(const ByteSource& file, const RecordPlace& place, int64_t bytes,
                                                  std::string& room) {
  room.clear();
  for (int64_t at = place.offset; static_cast<int64_t>(room.size()) < bytes;) {
    const bool is_first = at == place.offset;
    ASSIGN_OR_RETURN(const PartHeader part, ReadPartHeader(file, at, is_first));
    if (!is_first) room += LittleEndianBytes(kRecordMagic);
    const size_t begin = room.size();
    room.resize(begin + static_cast<size_t>(std::min(part.bytes, bytes)));
    RETURN_IF_ERROR(file.ReadAt(at + kPartHeaderBytes, absl::MakeSpan(room).subspan(begin)));
    if (part.ends_record()) break;
    at += part.total_bytes();
  }
  return absl::string_view(room).substr(0, static_cast<size_t>(bytes));
}

}  // namespace colonnade::data
