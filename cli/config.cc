#include "cli/config.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/definitions.h"
#include "cli/record.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"
#include "partition/named_plans.h"
#include "partition/planner.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"

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

// The flags of a record; those that were not given and have no value in it are left out.
// A name gives the same plan each time, but what a search found depends on more than flags, and a file may have changed: the
// record holds such a plan itself. One that was found is searched again where the command line, `words`, has --devices.
absl::StatusOr<std::vector<CLI::ConfigItem>> ParseRecord(const std::string& text, const std::string& file,
                                                         const std::vector<std::string>& words) {
  const Json record = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("flags") || !record["flags"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected TOML, or the object that train --json prints, with \"flags\" in it", file));
  }
  std::vector<CLI::ConfigItem> items;
  for (const auto& [name, value] : record["flags"].items()) {
    if (value.is_null() || value == false) continue;
    CLI::ConfigItem item;
    item.name = name;
    item.inputs = WordsOfValue(value);
    const bool holds_plan = name == "plan" && value.is_string() && record.contains(kPlanInRecord);
    const bool searches = value == partition::kAutoPlan && Has(words, "--devices");
    if (holds_plan && !searches && !partition::IsNamedPlan(value.get<std::string>())) item.inputs = {AbsolutePath(file)};
    items.push_back(std::move(item));
  }
  return items;
}

// What a line gives a value; empty where it gives none.
std::string KeyOf(absl::string_view line) {
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos) return "";
  absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
  for (const char* quote : {"\"", "'"}) {
    if (absl::ConsumePrefix(&key, quote)) (void)absl::ConsumeSuffix(&key, quote);
  }
  return absl::StartsWith(key, "#") ? "" : std::string(key);
}

absl::StatusOr<std::vector<CLI::ConfigItem>> Parse(const std::string& text, const std::string& file,
                                                   const std::vector<std::string>& words) {
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) return ParseRecord(text, file, words);
  int number = 0;
  std::set<std::string> keys;  // of a section
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "[")) keys.clear();
    // CLI11 joins the values of a key that it meets twice.
    const std::string key = KeyOf(line);
    if (!key.empty() && !keys.insert(key).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: line %d: expected each key once, found \"%s\" twice", file, number, key));
    }
    // CLI11 takes the rest of such a line for a comment.
    const absl::string_view before = line.substr(0, line.find('#'));
    if (before.size() == line.size() || std::count(before.begin(), before.end(), '"') % 2 == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: line %d: expected values without #, found %s", file, number, line));
  }
  std::istringstream stream(text);
  try {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(stream);
    // CLI11 marks where sections begin and end.
    std::erase_if(items, [](const CLI::ConfigItem& item) { return item.name == "++" || item.name == "--"; });
    return items;
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", error.what()));
  }
}

// "FILE: line 3" of the n-th line, from 0, for which `is_it` holds; "FILE" where there is none.
template <class F>
std::string PlaceOf(const std::string& file, absl::string_view text, int n, F is_it) {
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (is_it(line) && n-- == 0) return absl::StrFormat("%s: line %d", file, number);
  }
  return file;
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

// What stands for an item on the command line. Of a flag whose value may be left out, true and false say whether it is
// there.
void AppendWords(const CLI::ConfigItem& item, bool may_stand_alone, std::vector<std::string>& words) {
  std::string value = absl::StrJoin(item.inputs, ",");
  if (may_stand_alone && value == "false") return;
  if (may_stand_alone && value == "true") value.clear();
  words.push_back(value.empty() ? absl::StrCat("--", item.name) : absl::StrCat("--", item.name, "=", value));
  if (value.empty()) words.emplace_back();  // else the next word would be taken for its value
}

class Reader {
 public:
  Reader(std::string file, std::string text, const CLI::App& app, const std::string& command)
      : file_(std::move(file)), text_(std::move(text)), command_(command) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      const std::vector<std::string> flags = FlagsOf(*sub);
      commands_.push_back(sub->get_name());
      all_.insert(flags.begin(), flags.end());
      if (sub->get_name() != command) continue;
      own_.insert(flags.begin(), flags.end());
      for (const CLI::Option* option : sub->get_options()) {
        if (option->get_expected_max() == 0 && !option->get_lnames().empty()) switches_.insert(option->get_lnames()[0]);
      }
    }
  }

  // Whether an item is for this sub-command, and more than a switch that stays off; an error where it is for none.
  absl::StatusOr<bool> IsMeant(const CLI::ConfigItem& item) {
    const int before = counts_[item.name]++;
    const auto place = [&] {
      return PlaceOf(file_, text_, before, [&](absl::string_view line) { return KeyOf(line) == item.name; });
    };
    if (item.parents.size() > 1 || (item.parents.size() == 1 && !IsCommand(item.parents[0]))) {
      const std::string section = absl::StrJoin(item.parents, ".");
      const auto begins_it = [&](absl::string_view line) { return absl::StripAsciiWhitespace(line) == "[" + section + "]"; };
      return absl::InvalidArgumentError(absl::StrFormat("%s: expected sections that are sub-commands (%s), found \"%s\"",
                                                        PlaceOf(file_, text_, 0, begins_it), absl::StrJoin(commands_, ", "),
                                                        section));
    }
    if (!all_.contains(item.name)) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: expected the names of flags, found \"%s\"%s", place(),
                                                        item.name,
                                                        program::DidYouMean("; ", item.name, {own_.begin(), own_.end()})));
    }
    if (!item.parents.empty() && item.parents[0] != command_) return false;
    if (!own_.contains(item.name)) return false;
    const bool is_off = switches_.contains(item.name) && item.inputs == std::vector<std::string>{"false"};
    if (seen_.insert(item.name).second) return !is_off;
    return absl::InvalidArgumentError(absl::StrFormat("%s: expected each key once, found \"%s\" twice", place(), item.name));
  }

 private:
  bool IsCommand(const std::string& name) const {
    return std::find(commands_.begin(), commands_.end(), name) != commands_.end();
  }

  const std::string file_, text_, command_;
  std::vector<std::string> commands_;
  std::map<std::string, int> counts_;  // of each key so far
  std::set<std::string> all_, own_, switches_, seen_;
};

// A value as TOML has it: lists of words in brackets, words that are no numbers in quotes.
std::string AsToml(const std::vector<std::string>& values) {
  const auto quoted = [](std::string* out, const std::string& value) {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(value, number) && absl::StripAsciiWhitespace(value) == value;
    const bool bare = is_number || value == "true" || value == "false";
    absl::StrAppend(out, bare ? value : absl::StrCat("\"", value, "\""));
  };
  const std::string list = absl::StrJoin(values, ", ", quoted);
  return values.size() == 1 ? list : absl::StrCat("[", list, "]");
}

// CLI11 before 2.4 takes a backslash for itself, and later ones for the beginning of an escape.
bool FitsIntoQuotes(const std::string& value) {
  return std::none_of(value.begin(), value.end(),
                      [](char c) { return absl::ascii_iscntrl(c) || c == '#' || c == '"' || c == '\\'; });
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
  ASSIGN_OR_RETURN(std::vector<CLI::ConfigItem> items, Parse(text, file, words));
  Reader reader(file, text, app, words.empty() ? "" : words[0]);
  std::vector<std::string> more;
  for (const CLI::ConfigItem& item : items) {
    ASSIGN_OR_RETURN(bool meant, reader.IsMeant(item));
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
    absl::StrAppend(&text, flag.name, " = ", AsToml(flag.values), "\n");
    record["flags"][flag.name] = FlagJson(flag);
    fit = fit && std::all_of(flag.values.begin(), flag.values.end(), FitsIntoQuotes);
  }
  return fit ? text : absl::StrCat(record.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace colonnade::cli
