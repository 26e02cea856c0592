#include "data/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/full_io.h"
#include "base/status_macros.h"

namespace colonnade::data {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

}  // namespace

absl::StatusOr<OpenFile> OpenFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const int descriptor, base::OpenToRead(path));
  OpenFile file(path, descriptor);
  struct stat info;
  if (::fstat(descriptor, &info) != 0) return base::SystemError("read", path);
  file.size_ = info.st_size;
  return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status OpenFile::ReadAt(int64_t offset, absl::Span<char> to) const {
  const int64_t count = base::ReadFull(descriptor_, offset, to);
  if (count < 0) return base::SystemError("read", path_);
  if (count == static_cast<int64_t>(to.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected %d bytes at offset %d, found the end of the file after %d",
                                                    path_, to.size(), offset, count));
}

absl::Status ReadInto(const std::string& path, int64_t limit_bytes, std::string& room) {
  ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path));
  if (file.size() > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected at most %d bytes, found %d", path, limit_bytes, file.size()));
  }
  room.resize(static_cast<size_t>(file.size()));
  return file.ReadAt(0, absl::MakeSpan(room));
}

absl::StatusOr<FolderState> StateOf(const std::string& folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0) return base::ReadError("read folder", folder);
  return FolderState{info.st_dev, info.st_ino, Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim)};
}

int64_t NowNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds(now);
}

bool HasName(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

}  // namespace colonnade::data
