#include "engine/error_context.h"

#include "absl/strings/str_cat.h"

namespace colonnade::engine {

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

absl::Status InTask(const absl::Status& status, const program::Task& task) {
  if (status.ok()) return status;
  return WithContext(status, program::Describe(task));
}

}  // namespace colonnade::engine
