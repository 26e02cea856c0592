// Runs shells and other programs that may not be installed.
#ifndef COLONNADE_TESTS_CLI_SHELL_H_
#define COLONNADE_TESTS_CLI_SHELL_H_

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace colonnade::cli {

// What `command` of a POSIX shell prints, errors included, and behind it "exit N" where it fails.
inline std::string ShellOutput(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen(absl::StrCat("{ ", command, "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return "cannot start a shell";
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  if (status != 0) absl::StrAppend(&output, "exit ", status >> 8, "\n");
  return output;
}

inline bool IsInstalled(const std::string& program) {
  return ShellOutput(absl::StrCat("command -v ", program, " >/dev/null")).empty();
}

#define COLONNADE_NEED_PROGRAM(program) \
  if (!IsInstalled(program)) GTEST_SKIP() << "skipped: " << (program) << " is not installed"

// The lines of help that name something: neither those that go on nor those of text.
inline std::vector<absl::string_view> NamesOfHelp(absl::string_view help) {
  std::vector<absl::string_view> names;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    if (absl::ConsumePrefix(&line, "  ") && !absl::StartsWith(line, " ")) names.push_back(line);
  }
  return names;
}

inline std::set<std::string> FlagsOfHelp(const std::string& help) {
  std::set<std::string> flags;
  for (absl::string_view line : NamesOfHelp(help)) {
    if (line.size() > 3 && line[0] == '-' && line[2] == ',') line.remove_prefix(3);  // "-h,--help"
    if (!absl::ConsumePrefix(&line, "--")) continue;
    flags.insert(absl::StrCat("--", line.substr(0, line.find_first_of(" =:"))));
  }
  return flags;
}

// The names in help's list of sub-commands; that of a group has one, too.
inline std::vector<std::string> SubCommandsOfHelp(const std::string& help) {
  const std::vector<std::string> parts = absl::StrSplit(help, "Subcommands:\n");
  std::vector<std::string> names;
  if (parts.size() != 2) return names;
  for (const absl::string_view line : NamesOfHelp(parts[1])) names.emplace_back(line.substr(0, line.find(' ')));
  return names;
}

// The examples at its end, each in one line; empty where it has none.
inline std::vector<std::string> ExamplesOfHelp(const std::string& help) {
  const std::vector<std::string> parts = absl::StrSplit(help, "Examples:\n");
  if (parts.size() != 2) return {};
  return absl::StrSplit(absl::StrReplaceAll(parts[1], {{" \\\n      ", " "}}), '\n', absl::SkipWhitespace());
}

}  // namespace colonnade::cli

#endif  // COLONNADE_TESTS_CLI_SHELL_H_
