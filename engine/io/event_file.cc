#include "engine/io/event_file.h"

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "engine/io/crc32c.h"

namespace colonnade::engine {
namespace {

template <typename Unsigned>
std::string LittleEndian(Unsigned value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return bytes;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

enum class WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string Key(int field, WireType type) { return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type)); }

std::string VarintField(int field, int64_t value) {
  return absl::StrCat(Key(field, WireType::kVarint), Varint(static_cast<uint64_t>(value)));
}
std::string DoubleField(int field, double value) {
  return absl::StrCat(Key(field, WireType::kFixed64), LittleEndian(std::bit_cast<uint64_t>(value)));
}
std::string FloatField(int field, float value) {
  return absl::StrCat(Key(field, WireType::kFixed32), LittleEndian(std::bit_cast<uint32_t>(value)));
}
std::string BytesField(int field, absl::string_view bytes) {
  return absl::StrCat(Key(field, WireType::kLengthDelimited), Varint(bytes.size()), bytes);
}

std::string MaskedCrc(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return LittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

double WallTime() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

// Readers of a folder take its files in the order of their names, so the time comes first.
std::string NewPath(const std::string& folder) {
  const int64_t seconds = absl::ToUnixSeconds(absl::Now());
  for (int n = 0;; ++n) {
    std::string path = absl::StrCat(folder, "/events.out.tfevents.", seconds, ".", HostName(), ".", ::getpid(), ".", n);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return path;
  }
}

}  // namespace

std::string VersionEvent(double wall_time) {
  return absl::StrCat(DoubleField(1, wall_time), BytesField(3, "brain.Event:2"));
}

std::string ScalarsEvent(double wall_time, int64_t step, absl::Span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    const std::string value = absl::StrCat(BytesField(1, scalar.tag), FloatField(2, static_cast<float>(scalar.value)));
    summary += BytesField(1, value);
  }
  return absl::StrCat(DoubleField(1, wall_time), VarintField(2, step), BytesField(5, summary));
}

std::string RestartEvent(double wall_time, int64_t step) {
  constexpr int kStart = 1;
  return absl::StrCat(DoubleField(1, wall_time), VarintField(2, step), BytesField(7, VarintField(1, kStart)));
}

std::string TfRecord(absl::string_view data) {
  const std::string length = LittleEndian(static_cast<uint64_t>(data.size()));
  return absl::StrCat(length, MaskedCrc(length), data, MaskedCrc(data));
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::Open(NewPath(folder)));
  RETURN_IF_ERROR(file->Append(TfRecord(VersionEvent(WallTime()))));
  return std::unique_ptr<EventFile>(new EventFile(std::move(file)));
}

absl::Status EventFile::AddRestart(int64_t step) { return file_->Append(TfRecord(RestartEvent(WallTime(), step))); }

absl::Status EventFile::AddScalars(int64_t step, absl::Span<const Scalar> scalars) {
  return file_->Append(TfRecord(ScalarsEvent(WallTime(), step, scalars)));
}

}  // namespace colonnade::engine
