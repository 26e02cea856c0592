// Completion of the command line in bash, zsh and fish, written from the definitions of sub-commands and flags.
#ifndef COLONNADE_CLI_COMPLETION_H_
#define COLONNADE_CLI_COMPLETION_H_

#include <string>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

inline constexpr const char* kShells[] = {"bash", "zsh", "fish"};

// Returns the script that the shell sources. REQUIRES: `shell` is one of kShells.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMPLETION_H_
