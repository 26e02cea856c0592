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

bool IsOfKind(absl::string_view text, const JsonKind& kind) {
  return absl::StrContains(text, absl::StrCat("\"", kind.key, "\""));
}

const JsonKind* JsonKindIn(absl::string_view text) {
  if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) return nullptr;
  const auto* kind = std::find_if(std::begin(kJsonKinds), std::end(kJsonKinds),
                                  [text](const JsonKind& known) { return IsOfKind(text, known); });
  return kind == std::end(kJsonKinds) ? nullptr : kind;
}

}  // namespace

std::string KindOfJson(absl::string_view text) {
  const JsonKind* const kind = JsonKindIn(text);
  return kind == nullptr ? "" : absl::StrCat(kind->name, "; ", kind->taken_by);
}

absl::Status CheckKindOfJson(absl::string_view key, absl::string_view text) {
  const JsonKind& expected =
      *std::find_if(std::begin(kJsonKinds), std::end(kJsonKinds), [key](const JsonKind& kind) { return kind.key == key; });
  const std::string found = IsOfKind(text, expected) ? "" : KindOfJson(text);
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected %s, found %s", expected.name, found));
}

}  // namespace colonnade::base
