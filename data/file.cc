#include "data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/full_io.h"
#include "base/status_macros.h"

namespace colonnade::data {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

// What errno says of an attempt: "cannot read PATH: Permission denied".
absl::Status CallFailed(absl::string_view verb, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrFormat("cannot %s %s: %s", verb, path, std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(message) : absl::DataLossError(message);
}

absl::Status WriteAndSync(int descriptor, absl::string_view bytes, const std::string& path) {
  if (!base::WriteFull(descriptor, bytes)) return CallFailed("write", path);
  return ::fsync(descriptor) == 0 ? absl::OkStatus() : CallFailed("sync", path);
}

}  // namespace

absl::StatusOr<OpenFile> OpenFile::Open(const std::string& path) {
  // A pipe that nobody writes to would block.
  OpenFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &info) != 0) return CallFailed("read", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrFormat("cannot read %s: expected a file, found a folder, a pipe or a device", path));
  }
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
  if (count < 0) return CallFailed("read", path_);
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
  if (::stat(folder.c_str(), &info) != 0) return CallFailed("read folder", folder);
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

absl::Status ReplaceSmallFile(const std::string& path, absl::string_view bytes) {
  static std::atomic<int> calls = 0;
  const std::string beside = absl::StrCat(path, ".", ::getpid(), "-", ++calls, ".tmp");
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return CallFailed("write", beside);
  absl::Cleanup remove = [&beside] { ::unlink(beside.c_str()); };
  const absl::Status written = WriteAndSync(descriptor, bytes, beside);
  ::close(descriptor);
  RETURN_IF_ERROR(written);
  if (::rename(beside.c_str(), path.c_str()) != 0) return CallFailed("rename a file to", path);
  std::move(remove).Cancel();
  return absl::OkStatus();
}

}  // namespace colonnade::data
