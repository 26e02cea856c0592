// What a --config file says, flag by flag: TOML, or the record that `train --json` prints.
#ifndef COLONNADE_CLI_COMMAND_LINE_CONFIG_ITEMS_H_
#define COLONNADE_CLI_COMMAND_LINE_CONFIG_ITEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace colonnade::cli {

// What a file says of one flag.
struct ConfigItem {
  std::string section;  // the sub-command that it is for; empty: any that has the flag
  std::string name;     // of the flag, without --
  std::vector<std::string> values;
  std::string file;   // that says it
  uint32_t line = 0;  // of the file, from 1; 0 in a record

  std::string Place() const { return line == 0 ? file : absl::StrFormat("%s: line %d", file, line); }
};

// Reads the text of a file that is called `file`, whose sections are of `sections`; the items come in the order of their
// lines. Of a record whose plan a search found, the plan is that of the record, unless `searches_again`. InvalidArgument
// names file, line and key.
absl::StatusOr<std::vector<ConfigItem>> ReadConfig(const std::string& text, const std::string& file,
                                                   const std::vector<std::string>& sections, bool searches_again);

// Returns the path of a file from the root; as it is where the system does not know the folder that it begins in.
std::string AbsolutePath(const std::string& file);

// Returns a value as TOML has it: a number in decimal where `is_number` and it is one, true and false, all else in double
// quotes.
std::string TomlOf(const std::string& value, bool is_number);
// Whether what TomlOf makes is read as the same: TOML is UTF-8.
bool FitsIntoToml(const std::string& value);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_CONFIG_ITEMS_H_
