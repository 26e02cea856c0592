// Manual pages, written from the definitions of sub-commands and flags.
#ifndef COLONNADE_CLI_MAN_PAGE_H_
#define COLONNADE_CLI_MAN_PAGE_H_

#include <string>

#include "CLI/CLI.hpp"

namespace colonnade::cli {

// Returns the page colonnade(1) in roff, or that of a sub-command, or of a group of them, colonnade-NAME(1). `version`
// stands in its footer.
std::string ManPage(const CLI::App& app, const std::string& version);
std::string ManPageOf(const CLI::App& app, const CLI::App& command, const std::string& version);
std::string ManPageOfGroup(const CLI::App& app, const CLI::App& group, const std::string& version);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_MAN_PAGE_H_
