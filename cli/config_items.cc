#include "cli/config_items.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/record.h"
#include "nlohmann/json.hpp"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "program/status_macros.h"

#define TOML_EXCEPTIONS 0
#include "toml++/toml.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

// A flag's value in a record as words.
std::vector<std::string> WordsOfValue(const Json& value) {
  const auto word = [](const Json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
  std::vector<std::string> words;
  if (!value.is_array()) return {word(value)};
  for (const Json& member : value) words.push_back(word(member));
  return words;
}

std::string AbsolutePath(const std::string& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(file, error);
  return error ? file : path.string();
}

// Returns the flags of a record; those that were not given and have no value in it are left out.
// A name gives the same plan each time, but what a search found depends on more than flags, and a file may have changed: the
// record holds such a plan itself. One that was found may be searched again.
absl::StatusOr<std::vector<ConfigItem>> ParseRecord(const std::string& text, const std::string& file, bool searches_again) {
  const Json record = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("flags") || !record["flags"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected TOML, or the object that train --json prints, with \"flags\" in it", file));
  }
  std::vector<ConfigItem> items;
  for (const auto& [name, value] : record["flags"].items()) {
    if (value.is_null() || value == false) continue;
    ConfigItem item{.name = name, .values = WordsOfValue(value), .file = file};
    const bool holds_plan = name == "plan" && value.is_string() && record.contains(kPlanInRecord);
    const bool searches = value == partition::kAutoPlan && searches_again;
    if (holds_plan && !searches && !partition::IsNamedPlan(value.get<std::string>())) item.values = {AbsolutePath(file)};
    items.push_back(std::move(item));
  }
  return items;
}

// Returns a value in TOML: integers in decimal, text in double quotes.
std::string AsToml(const toml::node& value) {
  std::ostringstream text;
  text << toml::toml_formatter(value, toml::format_flags::none);
  return text.str();
}

// Returns text, a number, true or false as a word of the command line; none for other values.
std::optional<std::string> WordOf(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (value.is_number() || value.is_boolean()) return AsToml(value);
  return std::nullopt;
}

// Returns what follows the text in quotes with which `toml` begins; empty where it does not end.
absl::string_view BehindText(absl::string_view toml) {
  const char quote = toml[0];
  const std::string three(3, quote), end = absl::StartsWith(toml, three) ? three : three.substr(0, 1);
  toml.remove_prefix(end.size());
  while (!toml.empty()) {
    if (absl::ConsumePrefix(&toml, end)) {
      for (int more = 0; end == three && more < 2 && absl::StartsWith(toml, three.substr(0, 1)); ++more)
        toml.remove_prefix(1);
      return toml;
    }
    if (toml[0] == '\n' && end != three) return "";
    toml.remove_prefix(quote == '"' && toml[0] == '\\' && toml.size() > 1 ? 2 : 1);
  }
  return toml;
}

// Returns the line of the first letter beyond ASCII that stands neither in quotes nor in a comment, where TOML has none; 0
// if there is no such letter. What toml++ 3.3 does with one is undefined.
int64_t LineOfStrayLetter(absl::string_view text) {
  absl::string_view rest = text;
  (void)absl::ConsumePrefix(&rest, "\xEF\xBB\xBF");
  while (!rest.empty()) {
    if (!absl::ascii_isascii(static_cast<unsigned char>(rest[0]))) {
      return 1 + std::count(text.begin(), text.end() - static_cast<int64_t>(rest.size()), '\n');
    }
    if (rest[0] == '"' || rest[0] == '\'') {
      rest = BehindText(rest);
    } else if (rest[0] == '#') {
      rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
    } else {
      rest.remove_prefix(1);
    }
  }
  return 0;
}

// Collects the flags of a TOML file.
class TomlReader {
 public:
  TomlReader(std::string file, std::vector<std::string> sections) : file_(std::move(file)), sections_(std::move(sections)) {}

  // Returns them in the order of their lines.
  absl::StatusOr<std::vector<ConfigItem>> Read(const std::string& text) {
    if (const int64_t line = LineOfStrayLetter(text); line > 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: line %d: expected TOML, with text in quotes, found letters beyond ASCII outside", file_, line));
    }
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      const std::string fault(parsed.error().description());
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: line %d: expected TOML%s: %s", file_, parsed.error().source().begin.line,
          absl::StrContains(fault, "redefine") ? "" : ", with text in quotes", absl::StripPrefix(fault, "Error while ")));
    }
    RETURN_IF_ERROR(AddTable("", parsed.table()));
    std::stable_sort(items_.begin(), items_.end(), [](const ConfigItem& a, const ConfigItem& b) { return a.line < b.line; });
    return std::move(items_);
  }

 private:
  absl::Status AddTable(const std::string& section, const toml::table& table) {
    for (const auto& [key, value] : table) {
      ConfigItem item{.section = section, .name = std::string(key.str()), .file = file_, .line = key.source().begin.line};
      if (value.is_table() || value.is_array_of_tables()) {
        RETURN_IF_ERROR(CheckSection(item, value));
        RETURN_IF_ERROR(AddTable(item.name, *value.as_table()));
      } else {
        RETURN_IF_ERROR(AddFlag(std::move(item), value));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSection(const ConfigItem& item, const toml::node& value) const {
    const bool is_known = std::find(sections_.begin(), sections_.end(), item.name) != sections_.end();
    if (item.section.empty() && is_known && value.is_table()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: expected sections that are sub-commands (%s), found \"%s\"", item.Place(), absl::StrJoin(sections_, ", "),
        value.is_table() ? absl::StrCat(item.section, item.section.empty() ? "" : ".", item.name)
                         : absl::StrCat("[[", item.name, "]]")));
  }

  absl::Status AddFlag(ConfigItem item, const toml::node& value) {
    const auto add = [&](const toml::node& node) {
      std::optional<std::string> word = WordOf(node);
      if (!word.has_value()) return false;
      item.values.push_back(*std::move(word));
      return true;
    };
    const toml::array* const list = value.as_array();
    const bool is_known = list == nullptr ? add(value) : std::all_of(list->begin(), list->end(), add);
    if (!is_known) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: expected text, a number, true or false, or a list of them for \"%s\"", item.Place(), item.name));
    }
    items_.push_back(std::move(item));
    return absl::OkStatus();
  }

  const std::string file_;
  std::vector<std::string> sections_;
  std::vector<ConfigItem> items_;
};

}  // namespace

absl::StatusOr<std::vector<ConfigItem>> ReadConfig(const std::string& text, const std::string& file,
                                                   const std::vector<std::string>& sections, bool searches_again) {
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) return ParseRecord(text, file, searches_again);
  return TomlReader(file, sections).Read(text);
}

std::string TomlOf(const std::string& value, bool is_number) {
  if (is_number && LineOfStrayLetter(value) == 0) {
    const toml::parse_result bare = toml::parse(absl::StrCat("x = ", value));
    if (bare && bare["x"].is_number()) return AsToml(*bare["x"].node());
  }
  if (value == "true" || value == "false") return value;
  return AsToml(toml::value<std::string>(value));
}

bool FitsIntoToml(const std::string& value) {
  const toml::parse_result parsed = toml::parse(absl::StrCat("x = ", TomlOf(value, /*is_number=*/false)));
  if (!parsed) return false;
  return WordOf(*parsed["x"].node()) == value;
}

}  // namespace colonnade::cli
