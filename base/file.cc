#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/full_io.h"
#include "base/status_macros.h"

namespace colonnade::base {
namespace {

constexpr mode_t kNewFileMode = 0644;
// A temporary file is called FILE.colonnade-PID-N.tmp.
constexpr char kMark[] = ".colonnade-", kEnding[] = ".tmp";

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

const char* KindOf(mode_t mode) { return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device"; }

// Where ReplaceFile writes.
struct Target {
  std::string asked, path;         // path: behind all links
  std::optional<struct stat> old;  // of the file that is there
};

absl::StatusOr<Target> FindTarget(const std::string& path) {
  Target target{.asked = path, .path = path};
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno == ELOOP) return SystemError("write", path);
  if (exists && !S_ISREG(info.st_mode)) {
    return absl::DataLossError(
        absl::StrFormat("cannot write %s: expected the name of a file, found %s", path, KindOf(info.st_mode)));
  }
  if (exists) target.old = info;
  target.path = BehindLinks(path);
  return target;
}

// Removes the temporary files for `path` that nobody has locked: their process was killed.
void RemoveAbandoned(const std::string& path) {
  const std::string final_name = std::filesystem::path(path).filename().string();
  std::error_code error;
  std::filesystem::directory_iterator it(DirectoryOf(path), error), end;
  for (; !error && it != end; it.increment(error)) {
    if (!IsTemporaryFor(it->path().filename().string(), final_name)) continue;
    const int file = ::open(it->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
    ::close(file);
  }
}

// An open, locked file beside a target that is closed and, unless it was kept, removed.
class TemporaryFile {
 public:
  TemporaryFile(const Target& target, const FileCalls& calls) : target_(target), calls_(calls) {
    RemoveAbandoned(target.path);
    descriptor_ = Open();
    if (is_open() && target.old.has_value()) TakeOwnerAndMode(*target.old);
  }
  ~TemporaryFile() {
    if (is_open() && !kept_) ::unlink(path_.c_str());
    if (is_open()) ::close(descriptor_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  absl::Status Append(absl::string_view bytes) {
    const auto write = [this](int file, const void* from, size_t count) { return calls_.Write(file, from, count); };
    return WriteFull(descriptor_, bytes, write) ? absl::OkStatus() : SystemError("write", target_.asked);
  }

  absl::Status Keep() {
    if (calls_.Fsync(descriptor_) != 0) return SystemError("sync", target_.asked);
    if (calls_.Rename(path_.c_str(), target_.path.c_str()) != 0) return SystemError("rename a file to", target_.path);
    kept_ = true;
    return SyncFolder(DirectoryOf(target_.path), calls_);
  }

 private:
  int Open() {
    const mode_t mode = target_.old.has_value() ? target_.old->st_mode & 0700 : kNewFileMode;
    for (int n = 0; n < 1000; ++n) {
      path_ = absl::StrCat(target_.path, kMark, ::getpid(), "-", n, kEnding);
      const int file = calls_.Open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (file < 0 && errno != EEXIST) return file;
      if (file < 0) continue;  // another thread's
      while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {
      }
      // Between the two calls another process may have taken it for abandoned.
      struct stat info;
      if (::fstat(file, &info) == 0 && info.st_nlink > 0) return file;
      ::close(file);
    }
    return -1;
  }

  // Where the group cannot be the old one, the new one may not do what that might.
  void TakeOwnerAndMode(const struct stat& old) {
    const bool owned = calls_.Fchown(descriptor_, old.st_uid, old.st_gid) == 0;
    (void)::fchmod(descriptor_, old.st_mode & (owned ? 0777 : 0707));
  }

  const Target& target_;
  const FileCalls& calls_;
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

absl::StatusOr<std::string> ReadAll(int file, const std::string& path, int64_t limit_bytes) {
  struct stat info;
  if (::fstat(file, &info) != 0) return SystemError("read", path);
  std::string contents;
  contents.reserve(static_cast<size_t>(std::min<int64_t>(info.st_size, limit_bytes)));
  char chunk[1 << 16];
  for (;;) {
    const int64_t count = ReadFull(file, static_cast<int64_t>(contents.size()), absl::MakeSpan(chunk));
    if (count < 0) return SystemError("read", path);
    contents.append(chunk, static_cast<size_t>(count));
    if (static_cast<int64_t>(contents.size()) > limit_bytes) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: expected at most %d bytes, found more", path, limit_bytes));
    }
    if (count < static_cast<int64_t>(sizeof(chunk))) return contents;
  }
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::FunctionRef<absl::Status(Append)> write, const FileCalls& calls) {
  ASSIGN_OR_RETURN(Target target, FindTarget(path));
  TemporaryFile file(target, calls);
  if (!file.is_open()) return SystemError("write", path);
  RETURN_IF_ERROR(write([&file](absl::string_view bytes) { return file.Append(bytes); }));
  return file.Keep();
}

absl::Status ReplaceFile(const std::string& path, absl::string_view contents) {
  return ReplaceFile(path, [contents](Append append) { return append(contents); });
}

bool IsTemporaryFor(absl::string_view name, absl::string_view final_name) {
  return absl::ConsumePrefix(&name, final_name) && absl::ConsumePrefix(&name, kMark) &&
         absl::ConsumeSuffix(&name, kEnding) && name.find_first_not_of("0123456789-") == absl::string_view::npos;
}

std::string BehindLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::filesystem::path place = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks && std::filesystem::is_symlink(place, error); ++links) {
    place = place.parent_path() / std::filesystem::read_symlink(place, error);
  }
  return place.string();
}

absl::Status CheckWritable(const std::string& path) {
  ASSIGN_OR_RETURN(Target target, FindTarget(path));
  const FileCalls calls;
  TemporaryFile file(target, calls);
  return file.is_open() ? absl::OkStatus() : SystemError("write", path);
}

absl::StatusOr<int> OpenToRead(const std::string& path) {
  // A pipe that nobody writes to would block.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return ReadError("read", path);
  struct stat info;
  absl::Status status;
  if (::fstat(file, &info) != 0) {
    status = SystemError("read", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrFormat("%s: expected a file, found %s", path, KindOf(info.st_mode)));
  }
  if (status.ok()) return file;
  ::close(file);
  return status;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  ASSIGN_OR_RETURN(int file, OpenToRead(path));
  absl::StatusOr<std::string> contents = ReadAll(file, path, limit_bytes);
  ::close(file);
  return contents;
}

absl::Status MakeFolder(const std::string& folder, const FileCalls& calls) {
  if (IsFolder(folder)) return absl::OkStatus();
  if (calls.Mkdir(folder.c_str(), 0755) != 0) {
    const int error = errno;
    const bool is_made_by_another = error == EEXIST && IsFolder(folder);
    if (is_made_by_another) return absl::OkStatus();
    errno = error;
    return SystemError("make folder", folder);
  }
  return SyncFolder(DirectoryOf(folder), calls);
}

absl::Status MakeFolders(const std::string& folder, const FileCalls& calls) {
  if (IsFolder(folder)) return absl::OkStatus();
  if (const std::string parent = DirectoryOf(folder); parent != folder) {
    RETURN_IF_ERROR(MakeFolders(parent, calls));
  }
  return MakeFolder(folder, calls);
}

absl::Status SyncFolder(const std::string& folder, const FileCalls& calls) {
  const int directory = calls.Open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (directory < 0) return SystemError("open directory", folder);
  const absl::Status status = calls.Fsync(directory) == 0 ? absl::OkStatus() : SystemError("sync directory", folder);
  ::close(directory);
  return status;
}

absl::StatusOr<Lock> TryToLock(int file, const std::string& path, const FileCalls& calls) {
  int result;
  do {
    result = calls.Flock(file, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Lock::kTaken;
  if (errno == EWOULDBLOCK) return Lock::kHeldByAnother;
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return Lock::kNone;
  return SystemError("lock", path);
}

std::string NoLockNote(const std::string& path) {
  return absl::StrCat(path, ": its file system has no locks; see to it that no other run writes there");
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::DataLossError(absl::StrFormat("cannot %s %s: %s", what, path, std::strerror(error)));
}

absl::Status ReadError(absl::string_view what, const std::string& path) {
  const bool is_missing = errno == ENOENT || errno == ENOTDIR;
  const absl::Status error = SystemError(what, path);
  return is_missing ? absl::NotFoundError(error.message()) : error;
}

}  // namespace colonnade::base
