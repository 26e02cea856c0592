#include "cli/command_line/errors.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace colonnade::cli {

absl::Status FieldAsFlag(const absl::Status& status, absl::string_view field) {
  if (!absl::StartsWith(status.message(), absl::StrCat(field, ": "))) return status;
  const std::string flag = absl::StrReplaceAll(field, {{"_", "-"}});
  return absl::Status(status.code(), absl::StrCat("--", flag, status.message().substr(field.size())));
}

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kSuccess;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:  // what was asked for is more than this program can do
      return kUsage;
    case absl::StatusCode::kResourceExhausted:
      return kDoesNotFit;
    case absl::StatusCode::kOutOfRange:
      return kNotFinite;
    case absl::StatusCode::kInvalidArgument:
      return kWrongContents;
    case absl::StatusCode::kNotFound:
      return kMissing;
    case absl::StatusCode::kUnavailable:
      return kNoDevice;
    case absl::StatusCode::kDataLoss:
      return kReadOrWriteFailed;
    default:
      return kUnexpected;
  }
}

}  // namespace colonnade::cli
