// What is said of a command line that cannot be parsed.
#ifndef COLONNADE_CLI_COMMAND_LINE_USAGE_H_
#define COLONNADE_CLI_COMMAND_LINE_USAGE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

// Returns the first flag that ends in "=", for whose value CLI11 would take the next word; empty if there is none.
std::string FlagWithoutValue(const std::vector<std::string>& words);

// Lets every flag of whole numbers, of `app` and all that is below it, read decimal digits alone: 010 is ten, not octal, and
// 0x10 is none.
void ReadWholeNumbersInDecimal(CLI::App& app);

// Returns the names of the sub-commands, and groups of them, that may stand behind those of `app`.
std::vector<std::string> NamesOfCommands(const CLI::App& app);

// Returns what is wrong with a sub-command that `words` name and that there is not; empty if they name none, or one that
// there is.
std::string WrongCommand(const CLI::App& app, const std::vector<std::string>& words);

// Returns the message of a command line that cannot be parsed, with the flag that was probably meant.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_USAGE_H_
