// The nearest of the names that a person may have meant.
#ifndef COLONNADE_BASE_NEAREST_NAME_H_
#define COLONNADE_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colonnade::base {

// Longer names are no slip of the keyboard, and the distance takes time by the product of both lengths.
inline constexpr size_t kLongestNameLookedFor = 200;

// Returns the candidate with the least edit distance (Levenshtein) to `name`; empty if all are further than half its
// length, or if it is longer than kLongestNameLookedFor. Of several as near the first counts.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// Returns `joint` followed by `did you mean "conv1"?`, to append to a message; empty if no candidate is near.
std::string DidYouMean(absl::string_view joint, absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_NEAREST_NAME_H_
