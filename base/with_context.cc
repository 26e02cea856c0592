#include "base/with_context.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace colonnade::base {

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status named(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { named.SetPayload(type, payload); });
  return named;
}

}  // namespace colonnade::base
