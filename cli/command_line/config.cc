#include "cli/command_line/config.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "cli/command_line/config_items.h"
#include "cli/command_line/definitions.h"
#include "cli/command_line/spellings.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFlag[] = "--config";

bool Has(const std::vector<std::string>& words, const std::string& flag) {
  return absl::c_any_of(WordsBeforeDashes(words),
                        [&](const std::string& word) { return word == flag || absl::StartsWith(word, flag + "="); });
}

// The other flag that says what this one says, where a run takes only one of the two.
std::string InPlaceOf(const std::string& flag) {
  if (flag == "--steps") return "--epochs";
  return flag == "--epochs" ? "--steps" : flag;
}

std::string ConfigFileOf(absl::Span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (word == kFlag) return i + 1 < words.size() ? words[i + 1] : "";
    if (absl::ConsumePrefix(&word, absl::StrCat(kFlag, "="))) return std::string(word);
  }
  return "";
}

// Null where there is none of that name.
const Definition* FindDefinition(absl::Span<const Definition> definitions, absl::string_view flag) {
  const auto* definition = absl::c_find_if(definitions, [&](const Definition& d) { return d.name == flag; });
  return definition == definitions.end() ? nullptr : definition;
}

// Whether the value of a flag is the path of what the command reads, and no word that the flag knows.
bool IsInputPath(const CLI::App& command, const std::string& flag, const std::string& value) {
  constexpr absl::string_view kInputs[] = {"--model", "--data",   "--plan", "--machine",
                                           "--init",  "--resume", "--rows", "--transfers"};
  if (!absl::c_linear_search(kInputs, flag)) return false;
  const std::vector<Definition> definitions = DefinitionsOf(command);
  const Definition* const definition = FindDefinition(definitions, flag);
  return definition != nullptr && !absl::c_linear_search(definition->values, value);
}

// Whether `path`, or one in that folder, stands in a message by itself.
bool Names(absl::string_view message, absl::string_view path) {
  constexpr absl::string_view kBefore = " \"", kBehind = " \":;,/";
  for (size_t at = message.find(path); at != absl::string_view::npos; at = message.find(path, at + 1)) {
    const size_t end = at + path.size();
    const bool begins = at == 0 || absl::StrContains(kBefore, message[at - 1]);
    if (begins && (end == message.size() || absl::StrContains(kBehind, message[end]))) return true;
  }
  return false;
}

// A folder stands before what is in it.
std::string PlaceOfPath(absl::string_view message, const std::map<std::string, std::string>& path_places) {
  for (auto it = path_places.rbegin(); it != path_places.rend(); ++it) {
    if (Names(message, it->first)) return it->second;
  }
  return "";
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

// The sub-commands that read flags from a file, each with its flags.
class ConfiguredCommands {
 public:
  explicit ConfiguredCommands(const CLI::App& app) : app_(app) {
    for (const CLI::App* command : app.get_subcommands({})) {
      if (command->get_option_no_throw(kFlag) == nullptr) continue;
      names_.push_back(command->get_name());
      const std::vector<std::string> flags = FlagsOf(*command);
      flags_[command->get_name()] = {flags.begin(), flags.end()};
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  bool Has(const std::string& command, const std::string& flag) const {
    const auto it = flags_.find(command);
    return it != flags_.end() && it->second.contains(flag);
  }
  // InvalidArgument where no sub-command, or not that of the item's section, has such a flag; it suggests one of `command`.
  absl::Status Check(const ConfigItem& item, const std::string& command) const {
    const bool is_known = item.section.empty()
                              ? absl::c_any_of(names_, [&](const std::string& name) { return Has(name, item.name); })
                              : Has(item.section, item.name);
    if (is_known) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat("%s: expected the names of flags%s, found \"%s\"%s", item.Place(),
                                                      item.section.empty() ? "" : absl::StrCat(" of ", item.section),
                                                      item.name, Advice(item, command)));
  }

 private:
  // What to write instead: what another program's key means to `command`, or to one of the others, else the nearest name.
  std::string Advice(const ConfigItem& item, const std::string& command) const {
    std::vector<std::string> asked = {item.section.empty() ? command : item.section};
    if (item.section.empty()) asked.insert(asked.end(), names_.begin(), names_.end());
    for (const std::string& name : asked) {
      const std::string advice = AdviceOnKey(name, item.name, absl::StrJoin(item.values, ","), app_);
      if (!advice.empty()) return absl::StrCat("; ", advice);
    }
    const auto known = flags_.find(asked.front());
    if (known == flags_.end()) return "";
    return base::DidYouMean("; ", item.name, {known->second.begin(), known->second.end()});
  }

  const CLI::App& app_;
  std::vector<std::string> names_;
  std::map<std::string, std::set<std::string>> flags_;
};

bool IsSwitch(const CLI::App& command, const std::string& flag) {
  const CLI::Option* const option = command.get_option_no_throw("--" + flag);
  return option != nullptr && option->get_expected_max() == 0;
}

// Checks that a value of ours has not another name here, which the command line would read, or answer.
absl::Status CheckValue(const ConfigItem& item, const std::string& command, const CLI::App& app) {
  const std::string value = absl::StrJoin(item.values, ","), advice = AdviceOnKey(command, item.name, value, app);
  if (advice.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected a value of --%s, found \"%s\"; %s", item.Place(), item.name, value, advice));
}

// Whether a switch is on; InvalidArgument where the file gives it another value than true or false.
absl::StatusOr<bool> IsOn(const ConfigItem& item) {
  const std::string value = absl::StrJoin(item.values, ",");
  if (value == "true" || value == "false") return value == "true";
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected true or false for \"%s\", found %s", item.Place(), item.name, value));
}

// Returns the flag's value in TOML: of several a list in brackets.
std::string AsToml(const ResolvedFlag& flag) {
  const auto append = [&](std::string* out, const std::string& value) {
    absl::StrAppend(out, TomlOf(value, flag.is_number));
  };
  const std::string list = absl::StrJoin(flag.values, ", ", append);
  return flag.values.size() == 1 ? list : absl::StrCat("[", list, "]");
}

// Whether a flag's values are paths: of one that takes names, too, what is no name and lies there.
bool ArePaths(const Definition* definition, const std::vector<std::string>& values) {
  if (definition == nullptr || (!definition->files && !definition->folders)) return false;
  return absl::c_all_of(values, [&](const std::string& value) {
    std::error_code ignored;
    if (definition->values.empty()) return !value.empty();
    return !absl::c_linear_search(definition->values, value) && std::filesystem::exists(value, ignored);
  });
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

absl::StatusOr<ConfiguredWords> ConfigWords(const std::string& text, const std::string& file,
                                            const std::vector<std::string>& words, const CLI::App& app) {
  const ConfiguredCommands commands(app);
  const CLI::App* const command = CommandOf(app, words);
  if (command == nullptr) return ConfiguredWords();  // what parses the command line says so
  const std::string& name = command->get_name();
  ASSIGN_OR_RETURN(const std::vector<ConfigItem> items, ReadConfig(text, file, commands.names(), Has(words, "--devices")));
  ConfiguredWords more;
  std::set<std::string> seen;
  for (const ConfigItem& item : items) {
    RETURN_IF_ERROR(commands.Check(item, name));
    const bool is_meant = commands.Has(name, item.name) && (item.section.empty() || item.section == name);
    if (!is_meant) continue;
    if (!seen.insert(item.name).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: expected each key once, found \"%s\" twice", item.Place(), item.name));
    }
    const std::string flag = "--" + item.name;
    if (IsSwitch(*command, item.name)) {
      ASSIGN_OR_RETURN(const bool is_on, IsOn(item));
      if (!is_on) continue;
    }
    if (Has(words, flag) || Has(words, InPlaceOf(flag))) continue;
    RETURN_IF_ERROR(CheckValue(item, name, app));
    AppendWords(item, MayStandAlone(app, words, flag), more.words);
    more.places[flag] = item.Place();
    if (item.values.size() == 1 && IsInputPath(*command, flag, item.values[0])) {
      more.path_places[std::string(absl::StripSuffix(item.values[0], "/"))] = item.Place();
    }
  }
  return more;
}

absl::StatusOr<ConfiguredWords> WithConfig(const std::vector<std::string>& words, const CLI::App& app) {
  const std::string file = ConfigFileOf(WordsBeforeDashes(words));
  const CLI::App* const command = CommandOf(app, words);
  if (file.empty() || command == nullptr) return ConfiguredWords{.words = words};
  if (command->get_option_no_throw(kFlag) == nullptr) {
    return absl::FailedPreconditionError(absl::StrFormat("%s: expected one of the sub-commands %s, found %s", kFlag,
                                                         absl::StrJoin(ConfiguredCommands(app).names(), ", "),
                                                         absl::StrJoin(WordsOfCommand(*command), " ")));
  }
  ASSIGN_OR_RETURN(const std::string text, engine::ReadFile(file, kMostRecordBytes));
  ASSIGN_OR_RETURN(ConfiguredWords more, ConfigWords(text, file, words, app));
  const auto arguments = absl::c_find(words, "--");
  more.words.insert(more.words.begin(), words.begin(), arguments);
  more.words.insert(more.words.end(), arguments, words.end());
  return more;
}

std::string ConfiguredWords::PlaceOf(absl::string_view message) const {
  const bool is_unknown = absl::ConsumePrefix(&message, "unknown ");
  if (!is_unknown && !absl::StartsWith(message, "--")) return PlaceOfPath(message, path_places);
  const absl::string_view name = message.substr(0, message.find_first_of(":= "));
  const auto it = places.find(absl::StrCat(is_unknown ? "--" : "", name));
  return it == places.end() ? "" : it->second;
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
  const std::vector<Definition> definitions = DefinitionsOf(command);
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
    flag.is_path = ArePaths(FindDefinition(definitions, "--" + name), flag.values);
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<ResolvedFlag> WithAbsolutePaths(std::vector<ResolvedFlag> flags) {
  for (ResolvedFlag& flag : flags) {
    if (!flag.is_path) continue;
    for (std::string& value : flag.values) value = AbsolutePath(value);
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
