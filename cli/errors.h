// What a command says and ends with when something is wrong.
#ifndef COLONNADE_CLI_ERRORS_H_
#define COLONNADE_CLI_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::cli {

// Names the flag --FIELD where the message of a library begins with "field: ".
absl::Status FieldAsFlag(const absl::Status& status, absl::string_view field);

// Returns the exit code of `status`: 0 ok, 1 unexpected, 2 usage, 12 does not fit, 21 not finite, 65 wrong contents, 66
// missing, 69 no device, 74 cannot write.
int ExitCodeOf(const absl::Status& status);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_ERRORS_H_
