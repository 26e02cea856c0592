// The flags of a sub-command as data, read from their CLI11 definitions: what completions and man pages are made of. Any
// thread.
#ifndef COLONNADE_CLI_COMMAND_LINE_DEFINITIONS_H_
#define COLONNADE_CLI_COMMAND_LINE_DEFINITIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/types/span.h"

namespace colonnade::cli {

// A flag, or an argument without one.
struct Definition {
  std::string name;        // "--batch"; for an argument "DIR"
  std::string short_name;  // "-h"; mostly empty
  std::string group;       // "Model"; "Options" for a flag without a group
  std::string help;
  bool is_argument = false;
  bool takes_value = false, needs_value = false;  // --resume takes one and needs none
  bool required = false;
  std::string placeholder;              // what help writes for its value: "INT", "FILE.svg"
  std::string rule;                     // what its value must be: "from 1 to 64"; empty: see help
  std::vector<std::string> values;      // words that it takes
  bool files = false, folders = false;  // whether it also takes the name of one
  std::string default_value;
  std::vector<std::string> needs;  // other flags
};

// Returns the flags and arguments of `command` in the order of --help.
std::vector<Definition> DefinitionsOf(const CLI::App& command);

// Returns the app's sub-commands in their order; a group of them, such as `bench`, is replaced by its own sub-commands.
std::vector<const CLI::App*> SubCommandsOf(const CLI::App& app);
// Returns the groups alone.
std::vector<const CLI::App*> GroupsOf(const CLI::App& app);

// Returns the words that are typed for a sub-command: {"train"}, {"bench", "step"}.
std::vector<std::string> WordsOfCommand(const CLI::App& command);
// Returns the same words joined by hyphens: the sub-command's name in man pages and scripts.
std::string NameOf(const CLI::App& command);

// Returns the sub-command, or group, that the first words name; null if they name none.
const CLI::App* CommandOf(const CLI::App& app, const std::vector<std::string>& words);

// Returns the words that may be flags: those before "--", behind which all are values.
absl::Span<const std::string> WordsBeforeDashes(const std::vector<std::string>& words);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_DEFINITIONS_H_
