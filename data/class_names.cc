#include "data/class_names.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/counted.h"

namespace colonnade::data {
namespace {

constexpr size_t kMostNamesTold = 5;
constexpr absl::string_view kClassPrefix = "class ";

}  // namespace

absl::Status CheckLabel(int64_t label, int64_t classes) {
  const int64_t most = classes > 0 ? classes : kMostClasses;
  if (label >= 0 && label < most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected a label from 0 and below %s, found %d", base::Counted(most, "class"), label));
}

absl::StatusOr<std::vector<std::string>> NameClasses(std::vector<std::string> known, const std::vector<int32_t>& labels,
                                                     int64_t asked) {
  if (asked > 0 && static_cast<int64_t>(known.size()) > asked) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected at most %s, found %d", base::Counted(asked, "class"), known.size()));
  }
  int64_t count = std::max(asked, static_cast<int64_t>(known.size()));
  if (asked == 0 && !labels.empty()) count = std::max<int64_t>(count, *std::max_element(labels.begin(), labels.end()) + 1);
  const absl::flat_hash_set<std::string> taken(known.begin(), known.end());
  for (int64_t label = static_cast<int64_t>(known.size()); label < count; ++label) {
    std::string name = absl::StrCat(label);
    if (taken.contains(name)) name = absl::StrCat(kClassPrefix, name);
    known.push_back(std::move(name));
  }
  return known;
}

bool IsNoName(size_t label, absl::string_view name) {
  absl::ConsumePrefix(&name, kClassPrefix);
  return name == absl::StrCat(label);
}

bool HaveAll(const std::vector<std::string>& names, const std::vector<std::string>& wanted) {
  const absl::flat_hash_set<absl::string_view> known(names.begin(), names.end());
  return absl::c_all_of(wanted, [&](const std::string& name) { return known.contains(name); });
}

std::string NoteOfMissing(std::vector<std::string> missing, size_t classes) {
  if (missing.empty()) return "";
  const size_t count = missing.size();
  missing.resize(std::min(count, kMostNamesTold));
  return absl::StrFormat("no images of %d of %d classes: %s%s", count, classes, absl::StrJoin(missing, ", "),
                         count > kMostNamesTold ? ", …" : "");
}

std::string NoteOfLeftOut(int64_t files, absl::string_view one_of_them) {
  if (files == 0) return "";
  return absl::StrFormat("%s left out, such as %s: expected .jpg, .jpeg or .png, in the folder of a class",
                         base::Counted(files, "file", "is", "are"), one_of_them);
}

}  // namespace colonnade::data
