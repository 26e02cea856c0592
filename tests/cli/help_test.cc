// --help is as wide as its reader's terminal.

#include "cli/command_line/help.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"

namespace colonnade::cli {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> LinesWiderThan(int64_t columns, const std::string& text) {
  std::vector<std::string> wide;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const auto goes_on = [](char c) { return (c & 0xc0) == 0x80; };  // a character of UTF-8
    if (static_cast<int64_t>(line.size()) - std::count_if(line.begin(), line.end(), goes_on) > columns)
      wide.emplace_back(line);
  }
  return wide;
}

TEST_F(Command, NoLineOfHelpIsWiderThanAHundredColumns) {
  std::vector<std::string> commands = AllCommands();
  ASSERT_GT(commands.size(), 12u);
  commands.insert(commands.end(), {"", "bench"});
  for (const std::string& command : commands) {
    const Result r = Run(absl::StrCat(command, " --help"));
    EXPECT_EQ(r.code, 0) << command << r.err;
    EXPECT_THAT(LinesWiderThan(100, r.out), IsEmpty()) << command;
  }
}

TEST_F(Command, HelpIsAsWideAsTheTerminal) {
  COLONNADE_NEED_PROGRAM("script");
  for (int64_t columns : {70, 80}) {
    const std::string help = absl::StrCat(kCommand, " train --help >", In("help"));
    EXPECT_EQ(
        ShellOutput(absl::StrCat("script -qec 'stty cols ", columns, "; ", help, "' ", In("typescript"), " </dev/null")),
        "");
    const std::string text = *engine::ReadFile(In("help"));
    EXPECT_THAT(LinesWiderThan(columns, text), IsEmpty());
    EXPECT_FALSE(LinesWiderThan(columns - 4, text).empty()) << "narrower than it need be";
  }
}

TEST(HelpFormatter, WrapsRowsBelowTheirBeginningAndExamplesBehindABackslash) {
  CLI::App app{"Does something that it takes more than one line to describe."};
  app.name("app");
  app.formatter(std::make_shared<HelpFormatter>(50));
  int number = 0;
  app.add_option("--short", number, "what it is good for")->type_name("N");
  app.add_option("--list", number, "as wide as shown")->type_name("N,…");
  app.add_option("--a-long-name-of-a-flag", number, "stands below its name, in as many lines")->type_name("NUMBER");
  app.add_subcommand("sub", "Does a part of what the app does.");
  app.footer("Examples:\n  app --short=1\n  app --a-long-name-of-a-flag=1 --short=2222222 sub");
  EXPECT_EQ(app.help(), R"(Does something that it takes more than one line to
describe.
Usage: app [OPTIONS] [SUBCOMMAND]

Options:
  -h,--help                   Print this help
                              message and exit
  --short N                   what it is good for
  --list N,…                  as wide as shown
  --a-long-name-of-a-flag NUMBER
                              stands below its
                              name, in as many
                              lines

Subcommands:
  sub                         Does a part of what
                              the app does.

Examples:
  app --short=1
  app --a-long-name-of-a-flag=1 --short=2222222 \
      sub
)");
}

}  // namespace
}  // namespace colonnade::cli
