// Where a Status came from, said before its message. Any thread.
#ifndef COLONNADE_BASE_WITH_CONTEXT_H_
#define COLONNADE_BASE_WITH_CONTEXT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::base {

// Returns `status` with `context` and a colon in front of its message; OK stays OK.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_WITH_CONTEXT_H_
