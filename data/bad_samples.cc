#include "data/bad_samples.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace colonnade::data {
namespace {

std::string EpochBefore(const BadSamples& bad) {
  return bad.epoch == BadSamples::kReadOnce ? "" : absl::StrFormat("epoch %d: ", bad.epoch);
}

}  // namespace

void BadSamples::Add(int32_t label, const absl::Status& why) {
  if (count == 0) first = std::string(why.message());
  ++count;
  if (label < 0) return;  // nobody says which class it is of
  if (label >= static_cast<int32_t>(of_class.size())) of_class.resize(label + 1);
  ++of_class[label];
}

bool IsTooManyBad(int64_t bad, int64_t size) { return bad * 100 > size; }

absl::Status TooManyBad(const BadSamples& bad, int64_t size) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%sexpected at most 1 in 100 of %d samples that cannot be used, found %d so far; the first: %s",
                      EpochBefore(bad), size, bad.count, bad.first));
}

std::string ToString(const BadSamples& bad, int64_t size, const std::vector<std::string>& class_names) {
  std::vector<std::string> classes;
  for (size_t label = 0; label < bad.of_class.size(); ++label) {
    if (bad.of_class[label] > 0) classes.push_back(absl::StrCat(bad.of_class[label], " of class ", class_names[label]));
  }
  return absl::StrFormat("%s%d of %d samples could not be used and were skipped: %s; the first: %s", EpochBefore(bad),
                         bad.count, size, absl::StrJoin(classes, ", "), bad.first);
}

}  // namespace colonnade::data
