#include "cli/command_line/augment_words.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/command_line/flags.h"

namespace colonnade::cli {
namespace {

// One word of --augment and the number behind it.
struct AugmentWord {
  absl::string_view name, value;
};

std::vector<AugmentWord> WordsOf(absl::string_view augment) {
  std::vector<AugmentWord> words;
  for (absl::string_view word : absl::StrSplit(augment, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits(':', 1));
    words.push_back({parts.first, parts.second});
  }
  return words;
}

bool ParseSide(absl::string_view text, int64_t& side) {
  return absl::SimpleAtoi(text, &side) && side >= 1 && side <= kMostSide;
}

bool ParseShare(absl::string_view text, double& share) { return absl::SimpleAtod(text, &share) && share > 0 && share <= 1; }

// Whether the word can be meant; if so, `options` do what it says.
bool ApplyWord(const AugmentWord& word, data::AugmentOptions& options) {
  if (word.name == "mirror") {
    options.mirror = true;
    return word.value.empty();
  }
  if (word.name == "pad") {
    options.cropping = data::Cropping::kPadded;
    return ParseSide(word.value, options.pad);
  }
  if (word.name == "resized") {
    options.cropping = data::Cropping::kRandomResized;
    return word.value.empty() || ParseShare(word.value, options.least_area);
  }
  if (word.name == "scaled") {
    options.cropping = data::Cropping::kScaledRandom;
    const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(word.value, absl::MaxSplits('-', 1));
    if (!ParseSide(range.first, options.resize)) return false;
    return range.second.empty() || (ParseSide(range.second, options.resize_max) && options.resize_max >= options.resize);
  }
  if (word.name == "jitter") {
    if (!ParseShare(word.value, options.brightness)) return false;
    options.contrast = options.saturation = options.brightness;
    return true;
  }
  if (word.name == "lighting") return ParseShare(word.value, options.lighting);
  if (word.name == "cutout") return ParseSide(word.value, options.cutout);
  return false;
}

// What is wrong with a word that cannot be meant.
absl::Status Refused(const AugmentWord& word, const data::AugmentOptions& options, absl::string_view augment) {
  if (word.value.empty() && (word.name == "standard" || word.name == "none")) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected standard and none to stand alone, found \"%s\"", augment));
  }
  const std::string found = absl::StrCat(word.name, word.value.empty() ? "" : ":", word.value);
  if (word.name == "scaled" && options.resize_max > 0 && options.resize_max < options.resize) {
    return absl::FailedPreconditionError(absl::StrFormat("expected scaled:N-M with N up to M, found \"%s\"", found));
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "expected standard, none, or of pad:N, resized[:A], scaled:N[-M], mirror, jitter:X, lighting:X, cutout:N some "
      "with commas between, N and M from 1 to %d, A and X above 0 and up to 1, found \"%s\"",
      kMostSide, found));
}

}  // namespace

absl::Status ApplyAugment(absl::string_view augment, data::AugmentOptions& options) {
  std::set<absl::string_view> kinds;
  for (const AugmentWord& word : WordsOf(augment)) {
    if (!ApplyWord(word, options)) return Refused(word, options, augment);
    const bool crops = word.name == "pad" || word.name == "resized" || word.name == "scaled";
    if (kinds.insert(crops ? "pad, resized and scaled" : word.name).second) continue;
    return absl::FailedPreconditionError(absl::StrFormat("expected %s once, found a second in \"%s\"",
                                                         crops ? "one of pad, resized and scaled" : word.name, augment));
  }
  return absl::OkStatus();
}

absl::Status CheckAugment(const std::string& augment) {
  if (augment == "standard" || augment == "none") return absl::OkStatus();
  data::AugmentOptions options;
  return ApplyAugment(augment, options);
}

}  // namespace colonnade::cli
