#include "cli/config.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/definitions.h"
#include "cli/record.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"

#define TOML_EXCEPTIONS 0
#include "toml++/toml.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFlag[] = "--config";
constexpr int64_t kMostBytes = 1 << 24;  // of a record, which has the loss of each step

bool Has(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == flag || absl::StartsWith(word, flag + "="); });
}

// The other flag that says what this one says, where a run takes only one of the two.
std::string InPlaceOf(const std::string& flag) {
  if (flag == "--steps") return "--epochs";
  return flag == "--epochs" ? "--steps" : flag;
}

// The long flags of a sub-command, without what files cannot have.
std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& of_option = option->get_lnames();
    for (const std::string& name : of_option) {
      if (name != "help" && name != "config") names.push_back(name);
    }
  }
  return names;
}

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

// What a file says of one flag.
struct ConfigItem {
  std::string section;  // the sub-command that it is for; empty: any that has the flag
  std::string name;     // of the flag, without --
  std::vector<std::string> values;
  std::string file;   // that says it
  uint32_t line = 0;  // of the file, from 1; 0 in a record

  std::string Place() const { return line == 0 ? file : absl::StrFormat("%s: line %d", file, line); }
};

// Returns the flags of a record; those that were not given and have no value in it are left out.
// A name gives the same plan each time, but what a search found depends on more than flags, and a file may have changed: the
// record holds such a plan itself. One that was found is searched again where the command line, `words`, has --devices.
absl::StatusOr<std::vector<ConfigItem>> ParseRecord(const std::string& text, const std::string& file,
                                                    const std::vector<std::string>& words) {
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
    const bool searches = value == partition::kAutoPlan && Has(words, "--devices");
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

// Collects the flags of a TOML file.
class TomlReader {
 public:
  TomlReader(std::string file, const CLI::App& app) : file_(std::move(file)) {
    for (const CLI::App* command : app.get_subcommands({})) commands_.push_back(command->get_name());
  }

  // Returns them in the order of their lines.
  absl::StatusOr<std::vector<ConfigItem>> Read(const std::string& text) {
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: line %d: expected TOML, with text in quotes: %s", file_,
                                                        parsed.error().source().begin.line, parsed.error().description()));
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
    const bool is_command = std::find(commands_.begin(), commands_.end(), item.name) != commands_.end();
    if (item.section.empty() && is_command && value.is_table()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: expected sections that are sub-commands (%s), found \"%s\"", item.Place(), absl::StrJoin(commands_, ", "),
        absl::StrCat(item.section, item.section.empty() ? "" : ".", item.name)));
  }

  absl::Status AddFlag(ConfigItem item, const toml::node& value) {
    const auto add = [&](const toml::node& node) {
      std::optional<std::string> word = WordOf(node);
      if (word.has_value()) item.values.push_back(*std::move(word));
      return word.has_value();
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
  std::vector<std::string> commands_;
  std::vector<ConfigItem> items_;
};

absl::StatusOr<std::vector<ConfigItem>> Parse(const std::string& text, const std::string& file,
                                              const std::vector<std::string>& words, const CLI::App& app) {
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) return ParseRecord(text, file, words);
  return TomlReader(file, app).Read(text);
}

// Whether a flag's value may be left out, as that of --resume.
bool MayStandAlone(const CLI::Option& option) {
  return option.get_items_expected_min() == 0 && option.get_items_expected_max() > 0;
}
bool MayStandAlone(const CLI::App& app, const std::vector<std::string>& words, const std::string& flag) {
  const CLI::App* const command = CommandOf(app, words);
  const CLI::Option* const option = command == nullptr ? nullptr : command->get_option_no_throw(flag);
  return option != nullptr && MayStandAlone(*option);
}

// Appends what stands for an item on the command line. Of a flag whose value may be left out, true and false say whether it
// is there.
void AppendWords(const ConfigItem& item, bool may_stand_alone, std::vector<std::string>& words) {
  std::string value = absl::StrJoin(item.values, ",");
  if (may_stand_alone && value == "false") return;
  if (may_stand_alone && value == "true") value.clear();
  words.push_back(value.empty() ? absl::StrCat("--", item.name) : absl::StrCat("--", item.name, "=", value));
  if (value.empty()) words.emplace_back();  // else the next word would be taken for its value
}

// Tells which items of a file are for one sub-command.
class Selector {
 public:
  Selector(const CLI::App& app, const std::string& command) : command_(command) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      const std::vector<std::string> flags = FlagsOf(*sub);
      all_.insert(flags.begin(), flags.end());
      if (sub->get_name() != command) continue;
      own_.insert(flags.begin(), flags.end());
      for (const CLI::Option* option : sub->get_options()) {
        if (option->get_expected_max() == 0 && !option->get_lnames().empty()) switches_.insert(option->get_lnames()[0]);
      }
    }
  }

  // Whether an item is for this sub-command, and more than a switch that stays off; an error where it is for none.
  absl::StatusOr<bool> IsMeant(const ConfigItem& item) {
    if (!all_.contains(item.name)) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: expected the names of flags, found \"%s\"%s", item.Place(),
                                                        item.name,
                                                        program::DidYouMean("; ", item.name, {own_.begin(), own_.end()})));
    }
    if (!item.section.empty() && item.section != command_) return false;
    if (!own_.contains(item.name)) return false;
    const bool is_off = switches_.contains(item.name) && item.values == std::vector<std::string>{"false"};
    if (seen_.insert(item.name).second) return !is_off;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected each key once, found \"%s\" twice", item.Place(), item.name));
  }

 private:
  const std::string command_;
  std::set<std::string> all_, own_, switches_, seen_;
};

// Returns the flag's value in TOML: a list in brackets, quotes about what is no number.
std::string AsToml(const ResolvedFlag& flag) {
  const auto append = [&](std::string* out, const std::string& value) {
    const toml::parse_result bare = toml::parse(absl::StrCat("x = ", value));
    const bool is_number = flag.is_number && bare && bare["x"].is_number();
    const bool is_boolean = value == "true" || value == "false";
    absl::StrAppend(out, is_number    ? AsToml(*bare["x"].node())
                         : is_boolean ? value
                                      : AsToml(toml::value<std::string>(value)));
  };
  const std::string list = absl::StrJoin(flag.values, ", ", append);
  return flag.values.size() == 1 ? list : absl::StrCat("[", list, "]");
}

// Whether TOML, which is UTF-8, reads the value as it is.
bool FitsIntoToml(const std::string& value) {
  const toml::parse_result parsed = toml::parse(absl::StrCat("x = ", AsToml(toml::value<std::string>(value))));
  return parsed && parsed["x"].value<std::string>() == value;
}

bool TakesNumbers(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return absl::StartsWith(type, "INT") || absl::StartsWith(type, "UINT") || absl::StartsWith(type, "FLOAT");
}

}  // namespace

void AddConfigFlag(CLI::App& command, std::string& file) {
  command.add_option(kFlag, file, "flags from a file: TOML with one key for each; those of the command line win")
      ->type_name("FILE");
}

std::string ConfigFileOf(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (word == kFlag) return i + 1 < words.size() ? words[i + 1] : "";
    if (absl::ConsumePrefix(&word, absl::StrCat(kFlag, "="))) return std::string(word);
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> ConfigWords(const std::string& text, const std::string& file,
                                                     const std::vector<std::string>& words, const CLI::App& app) {
  ASSIGN_OR_RETURN(std::vector<ConfigItem> items, Parse(text, file, words, app));
  Selector selector(app, words.empty() ? "" : words[0]);
  std::vector<std::string> more;
  for (const ConfigItem& item : items) {
    ASSIGN_OR_RETURN(bool meant, selector.IsMeant(item));
    const bool is_given = Has(words, "--" + item.name) || Has(words, InPlaceOf("--" + item.name));
    if (meant && !is_given) AppendWords(item, MayStandAlone(app, words, "--" + item.name), more);
  }
  return more;
}

absl::StatusOr<std::vector<std::string>> WithConfig(std::vector<std::string> words, const CLI::App& app) {
  const std::string file = ConfigFileOf(words);
  if (file.empty() || words.empty()) return words;
  ASSIGN_OR_RETURN(std::string text, engine::ReadFile(file, kMostBytes));
  ASSIGN_OR_RETURN(std::vector<std::string> more, ConfigWords(text, file, words, app));
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json FlagJson(const ResolvedFlag& flag) {
  if (flag.is_switch) return !flag.values.empty();
  if (flag.values.empty()) return nullptr;
  const auto of_value = [&](const std::string& value) {
    const Json number = flag.is_number ? Json::parse(value, nullptr, /*allow_exceptions=*/false) : Json();
    return number.is_number() ? number : Json(value);
  };
  if (!flag.is_list) return of_value(flag.values[0]);
  Json values = Json::array();
  for (const std::string& value : flag.values) values.push_back(of_value(value));
  return values;
}

std::vector<ResolvedFlag> ResolvedFlags(const CLI::App& command) {
  std::vector<ResolvedFlag> flags;
  for (const std::string& name : FlagsOf(command)) {
    const CLI::Option* option = command.get_option("--" + name);
    const std::set<CLI::Option*> needs = option->get_needs();
    const bool alone = std::any_of(needs.begin(), needs.end(), [](const CLI::Option* need) { return need->count() == 0; });
    ResolvedFlag flag{.name = name,
                      .values = option->results(),
                      .is_switch = option->get_items_expected_max() == 0,
                      .is_list = option->get_delimiter() != '\0',
                      .is_number = TakesNumbers(*option)};
    if (option->count() == 0 && !alone && !option->get_default_str().empty()) flag.values = {option->get_default_str()};
    for (std::string& value : flag.values) {
      if (MayStandAlone(*option) && (value == "true" || value == "false")) value = "./" + value;  // a folder of that name
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::string ConfigText(const std::vector<ResolvedFlag>& flags) {
  std::string text;
  Json record;
  bool fit = true;
  for (const ResolvedFlag& flag : flags) {
    if (flag.values.empty()) continue;
    absl::StrAppend(&text, flag.name, " = ", AsToml(flag), "\n");
    record["flags"][flag.name] = FlagJson(flag);
    fit = fit && std::all_of(flag.values.begin(), flag.values.end(), FitsIntoToml);
  }
  return fit ? text : absl::StrCat(record.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace colonnade::cli
