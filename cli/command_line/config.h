// --config=FILE: flags from a file, in TOML.
//
//   model = "resnet20"
//   batch = 128
//   mean = [0.49, 0.48, 0.45]
//   [train]                    # for that sub-command alone
//   checkpoint = "run1"
//
// The object that `train --json` prints is such a file, too: of its "flags".
#ifndef COLONNADE_CLI_COMMAND_LINE_CONFIG_H_
#define COLONNADE_CLI_COMMAND_LINE_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/command_line/flags.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// The most bytes of a record (cli/training/record.h), which has the loss of each step.
inline constexpr int64_t kMostRecordBytes = int64_t{1} << 27;
inline constexpr int kDeepestRecord = 32;  // lists and objects in each other

// The member of a record that holds the plan, as --plan takes it in a file.
inline constexpr char kPlanInRecord[] = "plan_file";

void AddConfigFlag(CLI::App& command, std::string& file);

// Words of a command line, with where those of them that are of a file stand in it.
struct ConfiguredWords {
  std::vector<std::string> words;
  std::map<std::string, std::string> places;       // by flag: "--batch" is of "run.toml: line 3"
  std::map<std::string, std::string> path_places;  // by path of what is read: its flag's place

  // Returns the place of the flag that a message begins with, or whose value it says is unknown ("unknown plan …" of
  // --plan), or which names a path in it; empty where it is not of a file.
  std::string PlaceOf(absl::string_view message) const;
};

// Returns the command line `words` (without the program's name) with the flags of its --config file behind it, but for those
// that it has itself. Keys that another sub-command knows are left out. NotFound where the file is missing;
// FailedPrecondition where the sub-command reads none; InvalidArgument naming file, line and key where no sub-command knows
// the key, it stands twice, or its value is a date or a table.
absl::StatusOr<ConfiguredWords> WithConfig(const std::vector<std::string>& words, const CLI::App& app);

// Returns what the text of a config file adds to such a command line; `file` names it in errors.
absl::StatusOr<ConfiguredWords> ConfigWords(const std::string& text, const std::string& file,
                                            const std::vector<std::string>& words, const CLI::App& app);

// Returns every flag of `command` as it was parsed.
std::vector<ResolvedFlag> ResolvedFlags(const CLI::App& command);
// Returns them with absolute paths, for a file that is read from another folder.
std::vector<ResolvedFlag> WithAbsolutePaths(std::vector<ResolvedFlag> flags);
// Returns the value of a flag in a record: a number of one that takes numbers; null where it has none.
nlohmann::ordered_json FlagJson(const ResolvedFlag& flag);

// Returns what --config takes to run the command again: each of its flags that was given or has a default, as TOML; as a
// record where a value is not UTF-8.
std::string ConfigText(const std::vector<ResolvedFlag>& flags);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_CONFIG_H_
