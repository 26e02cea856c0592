// A file's bytes, mapped: read when they are looked at, and held by no memory that counts as the process's own.
#ifndef COLONNADE_ENGINE_MAPPED_FILE_H_
#define COLONNADE_ENGINE_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colonnade::engine {

// Maps a regular file for reading until the last copy of the result goes. Errors as ReadFile. A file that another process
// cuts short while it is mapped ends this one (SIGBUS); files that Colonnade writes are replaced, never cut.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  absl::string_view bytes() const { return bytes_; }

 private:
  absl::string_view bytes_;
  std::shared_ptr<void> mapping_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_MAPPED_FILE_H_
