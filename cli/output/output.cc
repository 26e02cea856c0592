#include "cli/output/output.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"

namespace colonnade::cli {
std::string Printable(absl::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t control = base::ControlBytes(text), shown = std::max(control, size_t{1});
    absl::StrAppend(&printable, control > 0 ? absl::CEscape(text.substr(0, control)) : std::string(text.substr(0, 1)));
    text.remove_prefix(shown);
  }
  return printable;
}

std::string PrintableLines(absl::string_view text) {
  const auto append = [](std::string* all, absl::string_view line) { absl::StrAppend(all, Printable(line)); };
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n", append);
}

size_t WidthOf(absl::string_view text) { return base::Characters(text); }

std::string PadRight(absl::string_view text, size_t width) {
  std::string padded = Printable(text);
  padded.append(width - std::min(width, WidthOf(padded)), ' ');
  return padded;
}

void PrintLine(absl::string_view line) { std::printf("%s\n", Printable(line).c_str()); }

void PrintJson(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace colonnade::cli
