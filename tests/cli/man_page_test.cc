// Manual pages: all that help has is in them, and groff takes them without a warning.

#include "cli/man_page.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;

TEST_F(Command, ManPagesHaveEveryFlagAndExampleOfHelp) {
  const std::vector<std::string> commands = AllCommands();
  ASSERT_GT(commands.size(), 12u);
  const std::string main = Run("man").out;
  for (const std::string& command : commands) {
    const std::string name = absl::StrReplaceAll(command, {{" ", "-"}});
    const Result man = Run(absl::StrCat("man ", name));
    EXPECT_EQ(man.code, 0) << man.err;
    const std::string help = Run(absl::StrCat(command, " --help")).out,
                      page = absl::StrReplaceAll(man.out, {{"\\-", "-"}, {"\\fB", ""}, {"\\fR", ""}});
    for (const std::string& flag : FlagsOfHelp(help))
      EXPECT_THAT(page, ::testing::ContainsRegex(absl::StrCat("\n(-[a-z], )?", flag, "[=[\n]")));
    for (const std::string& example : ExamplesOfHelp(help)) {
      const absl::string_view text = absl::StripAsciiWhitespace(example);
      EXPECT_THAT(page, HasSubstr(absl::StrReplaceAll(text, {{"~", "\\(ti"}, {"'", "\\(aq"}})));
    }
    EXPECT_THAT(main, HasSubstr(absl::StrCat(".BR colonnade\\-", absl::StrReplaceAll(name, {{"-", "\\-"}}), " (1)")));
  }
  EXPECT_THAT(main, HasSubstr(".SH EXIT STATUS\n"));
}

TEST_F(Command, ManPagesSayWhatAValueMayBe) {
  const std::string page = Run("man train").out;
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-dropout\\fR=\\fITEXT\\fR\n"));
  EXPECT_THAT(page, HasSubstr("One of on, off. Default: on.\n"));
  EXPECT_THAT(page, HasSubstr("Value: from 1 to 64. Default: 3.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-resume\\fR[=\\fIDIR\\fR]\n"));
  EXPECT_THAT(page, HasSubstr("Needs \\-\\-checkpoint."));
  EXPECT_THAT(Run("man checkpoint").out, HasSubstr(" \\fIACTION\\fR \\fIDIR\\fR\n"));
}

TEST_F(Command, ThePageOfAGroupNamesItsSubCommands) {
  const std::string page = Run("man bench").out;
  EXPECT_THAT(page, HasSubstr("\\fBcolonnade bench\\fR \\fISUBCOMMAND\\fR"));
  EXPECT_THAT(page, HasSubstr("\\fBbench step\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".BR colonnade\\-bench\\-transfers (1)"));
}

TEST_F(Command, ManWritesAllPagesAndGroffTakesThem) {
  ASSERT_EQ(Run(absl::StrCat("man --out=", In("a/man1"))).code, 0);
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(In("a/man1"))) files.insert(file.path().filename());
  std::set<std::string> expected = {"colonnade.1", "colonnade-bench.1"};
  for (const std::string& command : AllCommands())
    expected.insert(absl::StrCat("colonnade-", absl::StrReplaceAll(command, {{" ", "-"}}), ".1"));
  EXPECT_EQ(files, expected);
  EXPECT_EQ(*engine::ReadFile(In("a/man1/colonnade-train.1")), Run("man train").out);
  COLONNADE_NEED_PROGRAM("groff");
  for (const std::string& file : files) {
    EXPECT_EQ(ShellOutput(absl::StrCat("groff -man -ww -z -Tutf8 ", In("a/man1/" + file))), "") << file;
  }
}

TEST_F(Command, AManPageOfNoSubCommandIsRefused) {
  ExpectError("man trian", 2, {"SUBCOMMAND", "trian"});
  ExpectError(absl::StrCat("man train --out=", In("x")), 2, {"SUBCOMMAND excludes --out"});
  Write("file", "");
  ExpectError(absl::StrCat("man --out=", In("file")), 74, {"file"});
}

TEST_F(Command, ExitCodesOfThePageAreThoseOfTheManual) {
  const std::string page = *engine::ReadFile(absl::StrCat(kSourceDir, "/docs/command_line.md"));
  const std::string manual = absl::StrReplaceAll(Run("man").out, {{"\\-", "-"}, {"\\fB", ""}, {"\\fR", ""}});
  const auto between = [](const std::string& text, const std::string& from, const std::string& to) {
    const size_t begin = text.find(from), end = text.find(to, begin + from.size());
    EXPECT_NE(end, std::string::npos) << from;
    return text.substr(begin + from.size(), end - begin - from.size());
  };
  std::string rows;  // of the manual, as the page has them
  const std::string codes = between(manual, ".SH EXIT STATUS\n.TP\n", ".SH");
  for (const std::string& code : std::vector<std::string>(absl::StrSplit(codes, ".TP\n"))) {
    const std::vector<std::string> lines = absl::StrSplit(code, '\n', absl::SkipEmpty());
    ASSERT_EQ(lines.size(), 2u) << code;
    absl::StrAppend(&rows, "| ", lines[0], " | ", lines[1], " |\n");
  }
  EXPECT_EQ(between(page, "| code | meaning |\n|---|---|\n", "\n## "), rows);
}

// Help may hold any text.
TEST(ManPage, NoTextIsACommandOfRoff) {
  CLI::App app{"An app."};
  app.name("colonnade");
  CLI::App* sub = app.add_subcommand("x", "Does.");
  bool flag = false;
  sub->add_flag("--flag", flag,
                ".TH \\n 'a' `b` 5\xe2\x88\x92"
                "3 \xe2\x80\xa6 \xf0\x9f\x90\xa2");
  sub->footer("Examples:\n  .nf x\n  y");
  const std::string page = ManPageOf(app, *sub, "1");
  EXPECT_THAT(page, HasSubstr("\n\\&.TH \\en \\(aqa\\(aq \\(gab\\(ga 5\\[u2212]3 \\[u2026] \\[u1F422].\n"));
  EXPECT_THAT(page, HasSubstr(".nf\n\\&.nf x\ny\n.fi\n"));
}

}  // namespace
}  // namespace colonnade::cli
