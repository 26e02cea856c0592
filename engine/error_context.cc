#include "engine/error_context.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace colonnade::engine {

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\""); }

absl::Status InTask(const absl::Status& status, const program::Task& task) {
  if (status.ok()) return status;
  return WithContext(status, absl::StrCat("task ", task.id.value, " (", program::Name(task), " of ", task.from.layer,
                                          ") on device ", task.device));
}

}  // namespace colonnade::engine
