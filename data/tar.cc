#include "data/tar.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "program/formulas/rounding.h"

namespace colonnade::data {
namespace {

constexpr int64_t kBlock = 512, kTarChunk = 1 << 16;
constexpr int64_t kLongestName = 1 << 16;  // of GNU's and pax's headers, in bytes
using TarBlock = std::array<char, kBlock>;

// A field of a header.
struct TarField {
  size_t at, bytes;
};
constexpr TarField kNameField{0, 100}, kSizeField{124, 12}, kChecksumField{148, 8}, kMagicField{257, 5},
    kPrefixField{345, 155};
constexpr size_t kKindAt = 156;

absl::string_view FieldOf(const TarBlock& block, const TarField& field) { return {block.data() + field.at, field.bytes}; }

absl::string_view UpToZero(absl::string_view bytes) { return bytes.substr(0, bytes.find('\0')); }

absl::Status WrongTar(int64_t offset, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrFormat("at offset %d: %s", offset, what));
}

// Octal digits with blanks or zero bytes around them, or GNU's binary number, whose first bit is set; nothing where it is
// neither, or too large.
std::optional<int64_t> NumberIn(absl::string_view field) {
  int64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    for (size_t i = 1; i < field.size(); ++i) {
      if (value >= int64_t{1} << 54) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return static_cast<unsigned char>(field[0]) == 0x80 ? std::optional<int64_t>(value) : std::nullopt;
  }
  const size_t begin = field.find_first_not_of(' ');
  if (begin == absl::string_view::npos) return std::nullopt;
  field.remove_prefix(begin);
  const size_t digits = std::min(field.find_first_not_of("01234567"), field.size());
  if (digits == 0 || field.find_first_not_of(absl::string_view(" \0", 2), digits) != absl::string_view::npos)
    return std::nullopt;
  for (char digit : field.substr(0, digits)) value = value << 3 | (digit - '0');
  return value;
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

// The sum of all bytes, those of the checksum counting as blanks.
int64_t ChecksumOfHeader(const TarBlock& block) {
  int64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool in_checksum = i >= kChecksumField.at && i < kChecksumField.at + kChecksumField.bytes;
    sum += in_checksum ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

std::string NameOfHeader(const TarBlock& block) {
  const std::string name(UpToZero(FieldOf(block, kNameField)));
  const absl::string_view prefix = UpToZero(FieldOf(block, kPrefixField));
  // GNU's own format has other fields in the prefix's place, and another magic: "ustar" and a blank.
  const bool is_posix = FieldOf(block, kMagicField) == "ustar" && block[kMagicField.at + kMagicField.bytes] == '\0';
  return is_posix && !prefix.empty() ? absl::StrCat(prefix, "/", name) : name;
}

// What headers say of the member that follows them.
struct NextMember {
  std::optional<std::string> name;
  std::optional<int64_t> size;
};

// Records "LENGTH KEY=VALUE\n" of a pax header.
absl::Status ParsePax(absl::string_view records, int64_t offset, NextMember& next) {
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    uint64_t length = 0;
    const bool fits = blank != absl::string_view::npos && absl::SimpleAtoi(records.substr(0, blank), &length) &&
                      length > blank + 1 && length <= records.size() && records[length - 1] == '\n';
    if (!fits) return WrongTar(offset, "expected pax records of a length, a key and a value, found others");
    const absl::string_view record = records.substr(blank + 1, length - blank - 2);
    const size_t equals = record.find('=');
    if (equals == absl::string_view::npos) return WrongTar(offset, "expected a pax record with \"=\", found none");
    const absl::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    int64_t size = 0;
    if (key == "path") next.name = std::string(value);
    if (key == "size" && (!absl::SimpleAtoi(value, &size) || size < 0)) {
      return WrongTar(offset, absl::StrFormat("expected a size, found \"%s\"", value));
    }
    if (key == "size") next.size = size;
    if (key.substr(0, 11) == "GNU.sparse.") return WrongTar(offset, "expected a plain file, found a sparse one");
    records.remove_prefix(length);
  }
  return absl::OkStatus();
}

class TarScan {
 public:
  explicit TarScan(const ByteSource& file) : file_(file) {}

  absl::StatusOr<TarIndex> Run() {
    for (bool ended = false; !ended;) {
      TarBlock block;
      if (file_.size() - at_ < kBlock) {
        return WrongTar(
            at_, absl::StrFormat("expected a header or the archive's end, blocks of %d zeros, found the end of the file "
                                 "after %d bytes",
                                 kBlock, std::max<int64_t>(file_.size() - at_, 0)));
      }
      RETURN_IF_ERROR(file_.ReadAt(at_, absl::MakeSpan(block)));
      ended = IsZero({block.data(), block.size()});
      RETURN_IF_ERROR(ended ? CheckRest() : Member(block));
    }
    return std::move(index_);
  }

 private:
  absl::Status Member(const TarBlock& block) {
    const std::optional<int64_t> checksum = NumberIn(FieldOf(block, kChecksumField));
    if (!checksum.has_value() || *checksum != ChecksumOfHeader(block)) {
      return WrongTar(at_, absl::StrFormat("expected a header with the checksum %d, found %s", ChecksumOfHeader(block),
                                           checksum.has_value() ? absl::StrCat(*checksum) : "none"));
    }
    std::optional<int64_t> size = NumberIn(FieldOf(block, kSizeField));
    const char kind = block[kKindAt];
    const bool is_file = kind == '0' || kind == '\0' || kind == '7';
    if (is_file && next_.size.has_value()) size = next_.size;
    const bool has_bytes = is_file || kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    if (!has_bytes) size = 0;
    const int64_t begin = at_ + kBlock;
    if (!size.has_value() || *size > file_.size() - begin) {
      return WrongTar(at_, absl::StrFormat("expected a member of at most %d bytes, all that the file has left, found %s",
                                           file_.size() - begin, size.has_value() ? absl::StrCat(*size) : "no number"));
    }
    RETURN_IF_ERROR(is_file ? File(block, begin, *size) : has_bytes ? Extension(kind, begin, *size) : PassOver(kind));
    at_ = begin + program::RoundUp(*size, kBlock);
    return absl::OkStatus();
  }

  absl::Status File(const TarBlock& block, int64_t begin, int64_t size) {
    std::string name = next_.name.value_or(NameOfHeader(block));
    const bool is_old_folder = !name.empty() && name.back() == '/';
    if (!is_old_folder) index_.members.push_back({std::move(name), begin, size});
    next_ = {};
    return absl::OkStatus();
  }

  absl::Status Extension(char kind, int64_t begin, int64_t size) {
    if (size > kLongestName) {
      return WrongTar(at_, absl::StrFormat("expected a name of at most %d bytes, found %d", kLongestName, size));
    }
    std::string bytes(static_cast<size_t>(size), '\0');
    RETURN_IF_ERROR(file_.ReadAt(begin, absl::MakeSpan(bytes)));
    if (kind == 'L') next_.name = std::string(UpToZero(bytes));
    if (kind == 'x') return ParsePax(bytes, at_, next_);
    if (kind != 'g') return absl::OkStatus();
    NextMember all;
    RETURN_IF_ERROR(ParsePax(bytes, at_, all));
    if (!all.name.has_value() && !all.size.has_value()) return absl::OkStatus();
    return WrongTar(at_, "expected names and sizes of single members, found one for all");
  }

  // Links, devices, folders and pipes.
  absl::Status PassOver(char kind) {
    if (kind < '1' || kind > '6') {
      return WrongTar(at_, absl::StrFormat("expected a file, a folder or a link, found a member of type 0x%02x",
                                           static_cast<unsigned char>(kind)));
    }
    if (kind != '5') ++index_.passed_over;
    next_ = {};
    return absl::OkStatus();
  }

  // Behind the end there are zeros alone: archives that were joined would lose all but the first.
  absl::Status CheckRest() const {
    std::string chunk;
    for (int64_t at = at_; at < file_.size(); at += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min(kTarChunk, file_.size() - at)));
      RETURN_IF_ERROR(file_.ReadAt(at, absl::MakeSpan(chunk)));
      if (!IsZero(chunk))
        return WrongTar(at_, "expected zeros behind the archive's end, found more, such as a second archive");
    }
    return absl::OkStatus();
  }

  const ByteSource& file_;
  int64_t at_ = 0;
  NextMember next_;
  TarIndex index_;
};

}  // namespace

absl::StatusOr<TarIndex> ScanTar(const ByteSource& file) { return TarScan(file).Run(); }

}  // namespace colonnade::data
