#include "base/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace colonnade::base {

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\""); }

}  // namespace colonnade::base
