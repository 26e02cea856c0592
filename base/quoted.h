// Names from files, as messages and the text form show them.
#ifndef COLONNADE_BASE_QUOTED_H_
#define COLONNADE_BASE_QUOTED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::base {

// Returns `name` in quotes, with unprintable bytes escaped.
std::string Quoted(absl::string_view name);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_QUOTED_H_
