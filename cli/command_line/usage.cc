#include "cli/command_line/usage.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/utf8.h"
#include "cli/command_line/definitions.h"
#include "models/models.h"

namespace colonnade::cli {
namespace {

// The flag that was probably meant: one that `word` begins with or that begins with it, or the nearest in letters. Empty if
// there is none.
std::string FlagMeant(const std::string& word, const std::vector<std::string>& known) {
  for (const std::string& flag : known) {
    if (flag.size() > 2 && (absl::StartsWith(word, flag + "-") || absl::StartsWith(flag, word + "-"))) return flag;
  }
  std::vector<std::string> names;
  for (const std::string& flag : known) names.emplace_back(absl::StripPrefix(flag, "--"));
  const std::string nearest = base::NearestName(absl::StripPrefix(word, "--"), names);
  return nearest.empty() ? "" : "--" + nearest;
}

std::string UnknownCommand(const std::string& word, const std::vector<std::string>& commands) {
  return absl::StrFormat("unknown sub-command \"%s\"%s; expected one of %s", word, base::DidYouMean(", ", word, commands),
                         absl::StrJoin(commands, ", "));
}

// What is wrong where no sub-command is named, but the flag `first`.
std::string NoCommand(const std::string& first, const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) flags.push_back(option->get_name());
  const std::string meant = FlagMeant(first, flags);
  return absl::StrFormat("expected a sub-command, one of %s, found \"%s\"%s", absl::StrJoin(NamesOfCommands(app), ", "),
                         first, meant.empty() ? "" : absl::StrFormat("; did you mean \"%s\"?", meant));
}

// What to do about a flag that `command` does not have and other sub-commands have; empty if none has it.
std::string WhoHasIt(const std::string& flag, const CLI::App& command, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* other : SubCommandsOf(app)) {
    if (other->get_option_no_throw(flag) != nullptr) names.push_back(absl::StrJoin(WordsOfCommand(*other), " "));
  }
  if (names.empty()) return "";
  const bool takes_images = flag == "--data" && command.get_option_no_throw("--input-size") != nullptr;
  return absl::StrFormat("; %s has none, %s %s%s", absl::StrJoin(WordsOfCommand(command), " "), absl::StrJoin(names, ", "),
                         names.size() == 1 ? "has" : "have",
                         takes_images ? "; --input-size, --channels and --classes say what images are like" : "");
}

// Returns what is missing in `colonnade bench …`, where none of its sub-commands was named.
std::string MissingOfGroup(const CLI::App& group, const std::vector<std::string>& words) {
  const std::vector<std::string> commands = NamesOfCommands(group);
  if (words.size() > 1 && !absl::StartsWith(words[1], "-")) {
    return absl::StrCat(words[0], ": ", UnknownCommand(words[1], commands));
  }
  return absl::StrFormat("%s: expected one of %s behind it", words[0], absl::StrJoin(commands, ", "));
}

// What makes a file of a word that was taken for a flag; empty where the sub-command takes none, or none is called so.
std::string HowItIsAFile(const std::string& word, const CLI::App& command) {
  std::error_code ignored;
  const bool takes_files =
      absl::c_any_of(command.get_options(), [](const CLI::Option* option) { return option->get_positional(); });
  if (!takes_files || !std::filesystem::exists(word, ignored)) return "";
  return absl::StrFormat("; for the file of that name write ./%s, or -- before it", word);
}

// The flag that was left out before a word: "--model=lenet" of "lenet" and "model=lenet"; empty if there is none.
std::string WithItsFlag(const std::string& word, const CLI::App& command) {
  const CLI::Option* const of_word = command.get_option_no_throw("--" + word.substr(0, word.find('=')));
  if (of_word != nullptr && absl::StrContains(word, '=')) return "--" + word;
  const CLI::Option* const model = command.get_option_no_throw("--model");
  const bool lacks_model = model != nullptr && model->count() == 0;
  return lacks_model && models::FindModel(word).ok() ? "--model=" + word : "";
}

// Returns what is wrong with a command line that lacks something, and of which nothing takes the words `left`: those.
std::string UnexpectedBeside(const std::string& lack, const std::vector<std::string>& left, const CLI::App& command) {
  const auto flag = absl::c_find_if(left, [](const std::string& word) { return absl::StartsWith(word, "-"); });
  if (flag != left.end()) return absl::StrCat("unknown flag ", *flag, HowItIsAFile(*flag, command));
  const std::string meant = WithItsFlag(left[0], command);
  return absl::StrFormat("%s: expected a flag, found a word; %s", left[0].empty() ? "\"\"" : left[0],
                         meant.empty() ? lack : absl::StrFormat("did you mean %s?", meant));
}

// Leaves out the middle of a message that quotes a long value: std::regex takes a part of the stack for each character.
std::string WithoutMiddle(const std::string& message) {
  constexpr size_t kMostBytes = 2000;
  if (message.size() <= kMostBytes) return message;
  const auto is_inside_character = [&](size_t at) { return (message[at] & 0xc0) == 0x80; };
  size_t begin = message.size() - kMostBytes / 2;
  while (begin < message.size() && is_inside_character(begin)) ++begin;
  return absl::StrCat(base::WholeCharacters(message, kMostBytes / 2), "…", message.substr(begin));
}

// Returns what is wrong with words of the command line that nothing takes, of which CLI11 lists all, the last one first.
std::string Unexpected(absl::string_view listed, const std::vector<std::string>& words, const CLI::App* command) {
  constexpr size_t kShown = 3;
  const absl::flat_hash_set<absl::string_view> unexpected = absl::StrSplit(listed, ' ');
  std::vector<std::string> in_order;
  for (const std::string& word : words) {
    if (!unexpected.contains(word)) continue;
    if (absl::StartsWith(word, "-")) {
      return absl::StrCat("unknown flag ", word, command == nullptr ? "" : HowItIsAFile(word, *command));
    }
    in_order.push_back(word);
  }
  if (in_order.empty()) in_order.push_back(WithoutMiddle(std::string(listed)));  // words with spaces in them
  const size_t shown = std::min(in_order.size(), kShown), others = in_order.size() - shown;
  return absl::StrFormat("expected nothing more, found \"%s\"%s",
                         absl::StrJoin(in_order.begin(), in_order.begin() + shown, " "),
                         others == 0 ? "" : absl::StrFormat(" and %d more", others));
}

// What CLI11 says of a word that is none of a list, in our words; empty where it says something else.
std::string NoneOf(const std::string& message) {
  static const std::regex& pattern = *new std::regex("(--[a-z-]+|[A-Z]+): (.*) not in \\{(.*)\\}");
  std::smatch parts;
  if (!std::regex_match(message, parts, pattern)) return "";
  const std::string found = parts[2];
  const std::vector<std::string> words = absl::StrSplit(parts[3].str(), ',');
  return absl::StrFormat("%s: expected one of %s, found \"%s\"%s", parts[1].str(), absl::StrJoin(words, ", "), found,
                         base::DidYouMean("; ", absl::AsciiStrToLower(found), words));
}

// What CLI11 says of a value or of the words of the command line, in our words: flag, expected, found.
std::string Reworded(const std::string& said, const std::vector<std::string>& words, const CLI::App* command) {
  for (const char* unexpected :
       {"The following argument was not expected: ", "The following arguments were not expected: "}) {
    absl::string_view listed = said;
    if (absl::ConsumePrefix(&listed, unexpected)) return Unexpected(listed, words, command);
  }
  const std::string message = WithoutMiddle(said), none = NoneOf(message);
  if (!none.empty()) return none;
  static constexpr std::pair<const char*, const char*> kWords[] = {
      // It says so of "1e3" and "64.5", too.
      {"(--[a-z-]+): Value (.*) not in range (-?[0-9]+) to ([0-9]+)",
       "$1: expected a whole number from $3 to $4, found \"$2\""},
      {"(--[a-z-]+): At [Mm]ost 1 required but received ([0-9]+)", "$1: expected one value, found $2"},
      {"(--[a-z-]+): At (?:[Mm]ost|[Ll]east) ([0-9]+) required but received ([0-9]+)", "$1: expected $2 values, found $3"},
      {"(--[a-z-]+): 1 required (.*) missing", "$1: expected a value behind it, found none"},
      {"Could not convert: (--[a-z-]+) = (.*)", "$1: expected another kind of value, found \"$2\""}};
  for (const auto& [theirs, ours] : kWords) {
    const std::regex pattern(theirs);
    if (std::regex_match(message, pattern)) return std::regex_replace(message, pattern, ours);
  }
  return message;
}

// Whether `message` says `word`, and not as a part of another word or flag.
bool Says(absl::string_view message, absl::string_view word) {
  const auto goes_on = [&](size_t at) {
    return at < message.size() && (absl::ascii_isalnum(message[at]) || message[at] == '-');
  };
  for (size_t at = message.find(word); at != message.npos; at = message.find(word, at + 1)) {
    if ((at == 0 || !goes_on(at - 1)) && !goes_on(at + word.size())) return true;
  }
  return false;
}

// Takes the zeros before a number away, which CLI11 takes for a sign of octal digits; returns what is wrong, else "".
std::string ReadDecimal(std::string& text) {
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  absl::string_view digits = absl::string_view(text).substr(has_sign ? 1 : 0);
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  const bool is_prefixed = zeros > 0 && zeros < digits.size() && absl::ascii_isalpha(digits[zeros]);
  if (is_prefixed) return absl::StrFormat("expected a whole number in decimal digits, found \"%s\"", text);
  const bool is_whole = absl::c_all_of(digits, [](char c) { return absl::ascii_isdigit(c); });
  if (digits.size() < 2 || !is_whole) return "";  // what comes behind says what is wrong
  text = absl::StrCat(text.substr(0, has_sign ? 1 : 0), digits.substr(std::min(zeros, digits.size() - 1)));
  return "";
}

// The message, and behind it which flag may be meant by the word that it names, or which sub-commands have it.
std::string WithFlagMeant(const std::string& message, const std::vector<std::string>& words, const CLI::App* meant,
                          const CLI::App& app) {
  std::vector<std::string> known;
  if (meant != nullptr) {
    for (const CLI::Option* option : meant->get_options()) known.push_back(option->get_name());
  }
  for (const std::string& given : words) {
    const std::string word = given.substr(0, given.find('='));
    const bool is_flag_like = word.size() > 1 && (word[0] == '-' || word.size() < given.size());
    const bool is_known = meant != nullptr && meant->get_option_no_throw(word) != nullptr;
    if (!is_flag_like || is_known || !Says(message, word)) continue;
    const std::string nearest = FlagMeant(word, known);
    if (!nearest.empty()) return absl::StrFormat("%s; did you mean \"%s\"?", message, nearest);
    const std::string who = meant != nullptr && word[0] == '-' ? WhoHasIt(word, *meant, app) : "";
    if (!who.empty()) return absl::StrCat(message, who);
  }
  return message;
}

}  // namespace

std::vector<std::string> NamesOfCommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

void ReadWholeNumbersInDecimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (absl::StartsWith(type, "INT") || absl::StartsWith(type, "UINT")) option->transform(CLI::Validator(ReadDecimal, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) ReadWholeNumbersInDecimal(*command);
}

std::string FlagWithoutValue(const std::vector<std::string>& words) {
  const absl::Span<const std::string> flags = WordsBeforeDashes(words);
  const auto found = absl::c_find_if(
      flags, [](const std::string& word) { return absl::StartsWith(word, "--") && word.find('=') + 1 == word.size(); });
  return found == flags.end() ? "" : *found;
}

std::string WrongCommand(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> named;
  absl::c_copy_if(words, std::back_inserter(named),
                  [](const std::string& word) { return word != "-h" && word != "--help" && word != "--version"; });
  if (named.empty() || absl::StartsWith(named[0], "-")) return "";
  const CLI::App* const meant = CommandOf(app, named);
  if (meant == nullptr) return UnknownCommand(named[0], NamesOfCommands(app));
  const bool names_another = !SubCommandsOf(*meant).empty() && named.size() > 1 && !absl::StartsWith(named[1], "-");
  return names_another ? MissingOfGroup(*meant, named) : "";
}

std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const std::vector<std::string> commands = NamesOfCommands(app);
  const CLI::App* const meant = CommandOf(app, words);
  std::string message = Reworded(error.what(), words, meant);
  const auto is_command = [&](const std::string& word) {
    return std::find(commands.begin(), commands.end(), word) != commands.end();
  };
  const bool flag_first = !words.empty() && absl::StartsWith(words[0], "-");
  if (words.empty()) return absl::StrFormat("expected a sub-command, one of %s, found none", absl::StrJoin(commands, ", "));
  if (!flag_first && !is_command(words[0])) {
    return UnknownCommand(words[0], commands);
  }
  if (meant != nullptr && !SubCommandsOf(*meant).empty()) return MissingOfGroup(*meant, words);
  if (flag_first && message.find(words[0]) == std::string::npos) {
    const auto command = std::find_if(words.begin() + 1, words.end(), is_command);
    if (command != words.end()) {
      return absl::StrFormat("expected the sub-command %s first, and its flags after it, found \"%s\" before it", *command,
                             words[0]);
    }
    if (error.get_name() == "RequiredError") return NoCommand(words[0], app);
  }
  if (meant != nullptr && error.get_name() == "RequiredError" && meant->remaining_size() > 0) {
    message = UnexpectedBeside(message, meant->remaining(), *meant);
    if (!absl::StartsWith(message, "unknown flag ")) return message;
  }
  return WithFlagMeant(message, words, meant, app);
}

}  // namespace colonnade::cli
