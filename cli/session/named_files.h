// The files that flags name, before anything is written to them.
#ifndef COLONNADE_CLI_SESSION_NAMED_FILES_H_
#define COLONNADE_CLI_SESSION_NAMED_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/session/file_kinds.h"

namespace colonnade::cli {

struct NamedFile {
  std::string flag;                // "--save"
  std::string path;                // empty: the flag is not given
  FileKind kind = FileKind::kAny;  // what is written there, and may replace such a file alone
};

// Returns `name`, if it is that of a file; "" where it is one of the zoo's, of a plan or of a profile.
std::string IfFile(const std::string& name);

// Returns FailedPrecondition where a file of `written` is, by any path, also another of them or one of `others` (files that
// are read, and folders), would be part of a checkpoint, is where the standard output goes, or is there and not empty and of
// another kind; DataLoss where it cannot be written, or is write-protected.
absl::Status CheckWrittenFiles(const std::vector<NamedFile>& written, const std::vector<NamedFile>& others = {});

// Returns DataLoss where the disk has not room for a file of so many bytes, beside the one that is there.
absl::Status CheckRoomFor(const NamedFile& file, int64_t bytes);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_NAMED_FILES_H_
