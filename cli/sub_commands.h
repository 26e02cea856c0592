// The sub-commands: each with its flags, its examples, and what runs it.
#ifndef COLONNADE_CLI_SUB_COMMANDS_H_
#define COLONNADE_CLI_SUB_COMMANDS_H_

#include <atomic>
#include <functional>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "cli/bench.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"

namespace colonnade::cli {

struct SubCommand {
  CLI::App* app;
  std::function<absl::Status()> run;  // once the command line is parsed
  bool records_flags = false;         // its records or reports hold the command line
  // Signals end it between two steps, with what it has; those of the others end the process, since there is nothing to keep.
  bool keeps_results = false;
  bool ignores_sigpipe = false;  // goes on where nobody reads any longer what it says
};

// Adds all of them, in the order of help; all arguments must outlive the result.
std::vector<SubCommand> AddSubCommands(CLI::App& app, Flags& flags, BenchFlags& bench_flags, const std::atomic<bool>& stop,
                                       Outcome& outcome);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SUB_COMMANDS_H_
