// What a command says and ends with when something is wrong.
#ifndef COLONNADE_CLI_COMMAND_LINE_ERRORS_H_
#define COLONNADE_CLI_COMMAND_LINE_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::cli {

// Names the flag --FIELD where the message of a library begins with "field: ".
absl::Status FieldAsFlag(const absl::Status& status, absl::string_view field);

// What a command ends with (docs/command_line.md); a signal that stops it ends it with 128 + its number instead.
enum ExitCode {
  kSuccess = 0,
  kUnexpected = 1,
  kUsage = 2,
  kDoesNotFit = 12,  // in memory
  kNotFinite = 21,
  kWrongContents = 65,
  kMissing = 66,
  kNoDevice = 69,
  kReadOrWriteFailed = 74,
  kSavedForLater = 75,
};

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_ERRORS_H_
