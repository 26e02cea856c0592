// What is said of a command line that cannot be parsed.
#ifndef COLONNADE_CLI_USAGE_H_
#define COLONNADE_CLI_USAGE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

// The first flag that ends in "=", for whose value CLI11 would take the next word; empty if there is none.
std::string FlagWithoutValue(const std::vector<std::string>& words);

// The message of a command line that cannot be parsed, with the flag that was probably meant.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_USAGE_H_
