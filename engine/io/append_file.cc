#include "engine/io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/full_io.h"
#include "base/status_macros.h"
#include "engine/io/file.h"

namespace colonnade::engine {

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path, int64_t kept_bytes,
                                                             const FileCalls& calls) {
  // A pipe that nobody reads would block.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  if (descriptor < 0) return SystemError("write", path);
  std::unique_ptr<AppendFile> file(new AppendFile(path, descriptor));
  RETURN_IF_ERROR(file->Prepare(kept_bytes, calls));
  return file;
}

absl::Status AppendFile::Prepare(int64_t kept_bytes, const FileCalls& calls) {
  struct stat info;
  if (::fstat(descriptor_, &info) != 0) return SystemError("write", path_);
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrCat("cannot write ", path_, ": expected the name of a file, found something else"));
  }
  ASSIGN_OR_RETURN(const Lock lock, TryToLock(descriptor_, path_, calls));
  if (lock == Lock::kHeldByAnother) {
    return absl::DataLossError(absl::StrCat("cannot write ", path_, ": another process is writing it"));
  }
  is_locked_ = lock == Lock::kTaken;
  if (::ftruncate(descriptor_, std::min<off_t>(kept_bytes, info.st_size)) != 0) return SystemError("write", path_);
  return absl::OkStatus();
}

AppendFile::~AppendFile() { ::close(descriptor_); }

absl::Status AppendFile::Append(absl::string_view piece) {
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  if (before < 0) return SystemError("write", path_);
  if (base::WriteFull(descriptor_, piece)) return absl::OkStatus();
  const absl::Status status = SystemError("write", path_);
  (void)!::ftruncate(descriptor_, before);
  return status;
}

}  // namespace colonnade::engine
