// The files that flags name, before anything is written to them.
#ifndef COLONNADE_CLI_NAMED_FILES_H_
#define COLONNADE_CLI_NAMED_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace colonnade::cli {

struct NamedFile {
  std::string flag;  // "--save"
  std::string path;  // empty: the flag is not given
};

// `name`, if it is that of a file; "" where it is one of the zoo's, of a plan or of a profile.
std::string IfFile(const std::string& name);

// FailedPrecondition where a file that is to be written is also another of these, by whatever path: one of `written`, or of
// `others`, files that are read and folders. FailedPrecondition where it would be part of a checkpoint, which it would
// damage. DataLoss where it cannot be written.
absl::Status CheckWrittenFiles(const std::vector<NamedFile>& written, const std::vector<NamedFile>& others = {});

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_NAMED_FILES_H_
