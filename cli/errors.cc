#include "cli/errors.h"

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

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:  // what was asked for is more than this program can do
      return 2;
    case absl::StatusCode::kResourceExhausted:
      return 12;
    case absl::StatusCode::kOutOfRange:
      return 21;
    case absl::StatusCode::kInvalidArgument:
      return 65;
    case absl::StatusCode::kNotFound:
      return 66;
    case absl::StatusCode::kUnavailable:
      return 69;
    case absl::StatusCode::kDataLoss:
      return 74;
    default:
      return 1;
  }
}

}  // namespace colonnade::cli
