#include "base/json_files.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace colonnade::base {
namespace {

struct JsonKind {
  absl::string_view key, name, taken_by;
};
constexpr JsonKind kJsonKinds[] = {{"colonnade_plan", "a plan file", "--plan takes it"},
                                   {"colonnade_model", "a network file", "--model takes it"},
                                   {"colonnade_machine", "a machine profile", "--machine takes it"},
                                   {"colonnade_rows", "a table of rows", "table --rows takes it"},
                                   {"colonnade_engines", "algorithms found by a search", "--search-algorithms takes it"},
                                   {"colonnade_log", "the log of a run", "--log writes it"}};

}  // namespace

bool IsJsonWithKey(absl::string_view text, absl::string_view key) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{") &&
         absl::StrContains(text, absl::StrCat("\"", key, "\""));
}

std::string KindOfJson(absl::string_view text) {
  for (const JsonKind& kind : kJsonKinds) {
    if (IsJsonWithKey(text, kind.key)) return absl::StrCat(kind.name, "; ", kind.taken_by);
  }
  return "";
}

absl::Status CheckKindOfJson(absl::string_view key, absl::string_view text) {
  const JsonKind& expected =
      *std::find_if(std::begin(kJsonKinds), std::end(kJsonKinds), [key](const JsonKind& kind) { return kind.key == key; });
  const std::string found = IsJsonWithKey(text, expected.key) ? "" : KindOfJson(text);
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected %s, found %s", expected.name, found));
}

}  // namespace colonnade::base
