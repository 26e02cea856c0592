// The flags of a sub-command as data, read from their CLI11 definitions: what completions and man pages are made of. Any
// thread.
#ifndef COLONNADE_CLI_DEFINITIONS_H_
#define COLONNADE_CLI_DEFINITIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

// A flag, or an argument without one.
struct Definition {
  std::string name;        // "--batch"; of an argument "DIR"
  std::string short_name;  // "-h"; mostly empty
  std::string group;       // "Model"; of those without one "Options"
  std::string help;
  bool is_argument = false;
  bool takes_value = false, needs_value = false;  // --resume takes one and needs none
  bool required = false;
  std::string placeholder;              // of its value, in help's word: "INT", "FILE.svg"
  std::string rule;                     // what its value must be: "from 1 to 64"; empty: see help
  std::vector<std::string> values;      // words that it takes
  bool files = false, folders = false;  // whether it also takes the name of one
  std::string default_value;
  std::vector<std::string> needs;  // other flags
};

// In the order of --help.
std::vector<Definition> DefinitionsOf(const CLI::App& command);

// Those of the app, in their order; of a group of them, such as `bench`, its own in its place.
std::vector<const CLI::App*> SubCommandsOf(const CLI::App& app);
// The groups alone.
std::vector<const CLI::App*> GroupsOf(const CLI::App& app);

// What is typed to have a sub-command: {"train"}, {"bench", "step"}.
std::vector<std::string> WordsOfCommand(const CLI::App& command);
// They with hyphens between: its name in man pages and scripts.
std::string NameOf(const CLI::App& command);

// The sub-command, or group, that the first words name; null if they name none.
const CLI::App* CommandOf(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_DEFINITIONS_H_
