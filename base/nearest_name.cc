#include "base/nearest_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace colonnade::base {
namespace {

size_t LengthDifference(absl::string_view a, absl::string_view b) {
  return std::max(a.size(), b.size()) - std::min(a.size(), b.size());
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  if (name.size() > kLongestNameLookedFor) return nearest;
  size_t least = name.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    if (LengthDifference(name, candidate) >= least) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view joint, absl::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat(joint, "did you mean \"", nearest, "\"?");
}

}  // namespace colonnade::base
