#include "engine/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::DataLossError(absl::StrFormat("cannot %s %s: %s", what, path, std::strerror(error)));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// An open file that is closed and, unless it was kept, removed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& final_path)
      : path_(absl::StrCat(final_path, ".", ::getpid(), ".tmp")), descriptor_(Open(path_)) {}
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (descriptor_ >= 0 && !kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  absl::Status Append(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return SystemError("write", path_);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status KeepAs(const std::string& path) {
    if (::fsync(descriptor_) != 0) return SystemError("sync", path_);
    if (::rename(path_.c_str(), path.c_str()) != 0) return SystemError("rename a file to", path);
    kept_ = true;
    const int directory = ::open(DirectoryOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return SystemError("open directory", DirectoryOf(path));
    const int synced = ::fsync(directory);
    ::close(directory);
    return synced == 0 ? absl::OkStatus() : SystemError("sync directory", DirectoryOf(path));
  }

 private:
  // What a process of the same number left when it was killed is in nobody's use.
  static int Open(const std::string& path) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    const int descriptor = ::open(path.c_str(), kFlags, 0644);
    if (descriptor >= 0 || errno != EEXIST || ::unlink(path.c_str()) != 0) return descriptor;
    return ::open(path.c_str(), kFlags, 0644);
  }

  const std::string path_;
  const int descriptor_;
  bool kept_ = false;
};

// The file that `path` names, through links. DataLoss where there is something that is not a file, such as a device.
absl::StatusOr<std::string> Target(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return path;
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(
        absl::StrFormat("cannot write %s: expected the name of a file, found a directory or a device", path));
  }
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return SystemError("resolve", path);
  std::string target = resolved;
  std::free(resolved);
  return target;
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::FunctionRef<absl::Status(Append)> write) {
  ASSIGN_OR_RETURN(std::string target, Target(path));
  TemporaryFile file(target);
  if (!file.is_open()) return SystemError("write", path);
  RETURN_IF_ERROR(write([&file](absl::string_view bytes) { return file.Append(bytes); }));
  return file.KeepAs(target);
}

absl::Status ReplaceFile(const std::string& path, absl::string_view contents) {
  return ReplaceFile(path, [contents](Append append) { return append(contents); });
}

absl::Status CheckWritable(const std::string& path) {
  ASSIGN_OR_RETURN(std::string target, Target(path));
  TemporaryFile file(target);
  return file.is_open() ? absl::OkStatus() : SystemError("write", path);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    const absl::Status error = SystemError("read", path);
    return missing ? absl::NotFoundError(error.message()) : error;
  }
  std::string contents;
  absl::Status status;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) status = SystemError("read", path);
    if (count <= 0) break;
    contents.append(chunk, static_cast<size_t>(count));
    if (static_cast<int64_t>(contents.size()) > limit_bytes) {
      status = absl::InvalidArgumentError(absl::StrFormat("%s: expected at most %d bytes, found more", path, limit_bytes));
      break;
    }
  }
  ::close(descriptor);
  if (!status.ok()) return status;
  return contents;
}

}  // namespace colonnade::engine
