// A file that grows by whole pieces, lines or records: a piece that cannot be written whole leaves nothing behind, and every
// piece is in the file when Append returns.
#ifndef COLONNADE_ENGINE_APPEND_FILE_H_
#define COLONNADE_ENGINE_APPEND_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_calls.h"

namespace colonnade::engine {

class AppendFile {
 public:
  // Opens the file. If it is there, its first `kept_bytes` stay, at most all. DataLoss where it cannot be written, is no
  // regular file, or another process has it open by this function. Only Flock of `calls` is used.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path, int64_t kept_bytes = 0,
                                                          const base::FileCalls& calls = base::FileCalls());
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  absl::Status Append(absl::string_view piece);
  const std::string& path() const { return path_; }
  bool is_locked() const { return is_locked_; }  // false: its file system has no locks

 private:
  AppendFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Prepare(int64_t kept_bytes, const base::FileCalls& calls);

  const std::string path_;
  const int descriptor_;
  bool is_locked_ = false;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_APPEND_FILE_H_
