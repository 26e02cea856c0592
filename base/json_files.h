// The kinds of JSON files that people give to this program, each told by a key of its own. A pure function.
#ifndef COLONNADE_BASE_JSON_FILES_H_
#define COLONNADE_BASE_JSON_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::base {

// Returns whether `text` begins as an object of JSON, and `key` is in it.
bool IsJsonWithKey(absl::string_view text, absl::string_view key);

// Returns "a plan file; --plan takes it", where IsJsonWithKey with the key of such files; "" where it is of no kind.
std::string KindOfJson(absl::string_view text);

// Returns InvalidArgument, "expected a network file, found a plan file; --plan takes it", where `text` is of another kind
// than that of `key`, and OK where it is of that or of none. REQUIRES: `key` is that of a kind.
absl::Status CheckKindOfJson(absl::string_view key, absl::string_view text);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_JSON_FILES_H_
