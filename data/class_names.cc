#include "data/class_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace colonnade::data {

absl::Status CheckLabel(int64_t label, int64_t classes) {
  const int64_t most = classes > 0 ? classes : kMostClasses;
  if (label >= 0 && label < most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected a label from 0 and below %d classes, found %d", most, label));
}

absl::StatusOr<std::vector<std::string>> NameClasses(std::vector<std::string> known, const std::vector<int32_t>& labels,
                                                     int64_t asked) {
  if (asked > 0 && static_cast<int64_t>(known.size()) > asked) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected at most %d class%s, found %d", asked, asked == 1 ? "" : "es", known.size()));
  }
  int64_t count = std::max(asked, static_cast<int64_t>(known.size()));
  if (asked == 0 && !labels.empty()) count = std::max<int64_t>(count, *std::max_element(labels.begin(), labels.end()) + 1);
  for (int64_t label = static_cast<int64_t>(known.size()); label < count; ++label) known.push_back(absl::StrCat(label));
  return known;
}

}  // namespace colonnade::data
