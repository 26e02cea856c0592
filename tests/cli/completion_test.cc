// Completion in real shells: bash always, zsh and fish where they are installed.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"
#include "tests/cli/shell.h"

namespace colonnade::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class Completion : public Command {
 protected:
  // The script of a shell, in this test's folder.
  std::string Script(const std::string& shell) const {
    const Result r = Run(absl::StrCat("completion ", shell));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    Write("script", r.out);
    return In("script");
  }

  // What bash would offer for the last of `words` as it splits a line, or as it does where = is no word of its own.
  std::vector<std::string> InBash(const std::vector<std::string>& words) const {
    std::string quoted;
    for (const std::string& word : words) absl::StrAppend(&quoted, " '", word, "'");
    Write("complete.bash",
          absl::StrFormat("cd '%s' && . ./script && COMP_WORDS=(colonnade%s) && COMP_CWORD=%d && _colonnade && "
                          "if [ ${#COMPREPLY[@]} -gt 0 ]; then printf '%%s\\n' \"${COMPREPLY[@]}\"; fi\n",
                          path_, quoted, words.size()));
    return absl::StrSplit(ShellOutput(absl::StrCat("bash ", In("complete.bash"))), '\n', absl::SkipEmpty());
  }
};

TEST_F(Completion, IsPrintedForThreeShellsAlone) {
  ExpectError("completion tcsh", 2, {"SHELL", "tcsh", "bash, zsh, fish"});
  ExpectError("completion", 2, {"SHELL"});
}

TEST_F(Completion, InBashOffersSubCommandsFlagsAndValues) {
  const std::string script = Script("bash");
  ASSERT_EQ(ShellOutput(absl::StrCat("bash -n ", script)), "");
  EXPECT_THAT(InBash({""}), IsSupersetOf({"train", "info", "completion", "man", "io-bench"}));
  EXPECT_THAT(InBash({"tr"}), ElementsAre("train"));
  EXPECT_THAT(InBash({"benc"}), ElementsAre("bench"));
  EXPECT_THAT(InBash({"bench", ""}), ElementsAre("transfers", "step", "plans", "simulator"));
  EXPECT_THAT(InBash({"bench", "transfers", "--mat"}), ElementsAre("--matrix="));
  EXPECT_THAT(InBash({"bench", "step", "--model", "=", "resnet10"}), ElementsAre("resnet101"));
  EXPECT_THAT(InBash({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(InBash({"train", "--pl"}), ElementsAre("--plan="));
  EXPECT_THAT(InBash({"train", "--js"}), ElementsAre("--json"));
  EXPECT_THAT(InBash({"train", "--json", "--dro"}), ElementsAre("--dropout="));
  EXPECT_THAT(InBash({"train", "--dropout", "=", "o"}), ElementsAre("on", "off"));
  EXPECT_THAT(InBash({"train", "--dropout", "="}), ElementsAre("on", "off"));
  EXPECT_THAT(InBash({"train", "--dropout=of"}), ElementsAre("--dropout=off"));
  EXPECT_THAT(InBash({"train", "--model", "=", "resnet1"}), ElementsAre("resnet18", "resnet101", "resnet152"));
  EXPECT_THAT(InBash({"plan", "--plan", "ow"}), ElementsAre("owt"));
  EXPECT_THAT(InBash({"plan", "--machine", "=", "titan"}), Contains("titan-2013"));
  EXPECT_THAT(InBash({"train", "--backend", "=", ""}), ElementsAre("cpu", "cuda", "auto"));
  EXPECT_THAT(InBash({"table", "--backend", "=", ""}), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(InBash({"train", "--steps", "=", ""}), IsEmpty());
  EXPECT_THAT(InBash({"train", "--batch-norm", "=", ""}), ElementsAre("sync"));
  EXPECT_THAT(InBash({"nonsense", "--"}), IsEmpty());
}

TEST_F(Completion, InBashOffersFilesAndFoldersWhereFlagsTakeThem) {
  Script("bash");
  std::filesystem::create_directory(In("my folder"));
  Write("my weights", "");
  EXPECT_THAT(InBash({"train", "--init", "=", "my"}), ::testing::UnorderedElementsAre("my weights", "my folder"));
  EXPECT_THAT(InBash({"train", "--checkpoint", "=", "my"}), ElementsAre("my folder"));
  EXPECT_THAT(InBash({"train", "--data", "=", "my"}), ::testing::UnorderedElementsAre("my weights", "my folder"));
  EXPECT_THAT(InBash({"train", "--data", "=", "dig"}), ElementsAre("digits"));
  EXPECT_THAT(InBash({"train", "--plan=my"}), ::testing::UnorderedElementsAre("--plan=my weights", "--plan=my folder"));
  EXPECT_THAT(InBash({"checkpoint", ""}), ElementsAre("show", "verify", "export"));
  EXPECT_THAT(InBash({"checkpoint", "show", "my"}), ElementsAre("my folder"));
  EXPECT_THAT(InBash({"models", "lene"}), ElementsAre("lenet"));
  EXPECT_THAT(InBash({"man", "tra"}), ElementsAre("train"));
}

TEST_F(Completion, OffersEveryFlagOfHelpInEveryShell) {
  const std::vector<std::string> commands = AllCommands();
  ASSERT_GT(commands.size(), 12u);
  Script("bash");
  const std::string zsh = Run("completion zsh").out, fish = Run("completion fish").out;
  for (const std::string& command : commands) {
    const std::set<std::string> flags = FlagsOfHelp(Run(absl::StrCat(command, " --help")).out);
    std::set<std::string> offered;
    std::vector<std::string> words = absl::StrSplit(command, ' ');
    words.emplace_back("--");
    for (const std::string& flag : InBash(words)) offered.emplace(absl::StripSuffix(flag, "="));
    EXPECT_EQ(offered, flags) << command;
    const std::string name = absl::StrReplaceAll(command, {{" ", "-"}});
    const size_t begin = zsh.find(absl::StrCat("\n    ", name, ")\n"));
    ASSERT_NE(begin, std::string::npos) << command;
    const std::string of_zsh = zsh.substr(begin, zsh.find(";;\n", begin) - begin);
    for (const std::string& flag : flags) {
      EXPECT_THAT(of_zsh, ::testing::ContainsRegex(absl::StrCat("'", flag, "=?\\["))) << command;
      EXPECT_THAT(fish, ::testing::HasSubstr(absl::StrCat("'__colonnade_is ", name, "' -l ", flag.substr(2), " ")))
          << command;
    }
  }
}

TEST_F(Completion, InFish) {
  COLONNADE_NEED_PROGRAM("fish");
  const std::string script = Script("fish");
  ASSERT_EQ(ShellOutput(absl::StrCat("fish -n ", script)), "");
  Write("my_weights", "");
  // Each candidate, without its description.
  const auto offered = [&](const std::string& line) {
    const std::string output = ShellOutput(
        absl::StrCat("cd ", path_, " && HOME=", path_, " fish -c 'source script; complete -C \"colonnade ", line, "\"'"));
    std::vector<std::string> words;
    for (const absl::string_view word : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
      words.emplace_back(word.substr(0, word.find('\t')));
    }
    return words;
  };
  EXPECT_THAT(offered("tr"), ElementsAre("train"));
  EXPECT_THAT(offered("train --pla"), Contains(StartsWith("--plan")));
  EXPECT_THAT(offered("train --dropout="), ::testing::UnorderedElementsAre("--dropout=on", "--dropout=off"));
  EXPECT_THAT(offered("train --model=resnet10"), ElementsAre("--model=resnet101"));
  EXPECT_THAT(offered("train --init=my"), Contains(::testing::HasSubstr("my_weights")));
  EXPECT_THAT(offered("train --steps="), Not(Contains(::testing::HasSubstr("my_weights"))));
  EXPECT_THAT(offered("checkpoint sh"), ElementsAre("show"));
  EXPECT_THAT(offered("bench tr"), ElementsAre("transfers"));
  EXPECT_THAT(offered("bench step --model=resnet10"), ElementsAre("--model=resnet101"));
  EXPECT_THAT(offered("bench transfers tr"), IsEmpty());
  EXPECT_THAT(offered("checkpoint show sh"), IsEmpty());
}

TEST_F(Completion, InZsh) {
  COLONNADE_NEED_PROGRAM("zsh");
  const std::string script = Script("zsh");
  ASSERT_EQ(ShellOutput(absl::StrCat("zsh -n ", script)), "");
  Write("my_weights", "");
  // A terminal of its own, in which the line is typed and Tab pressed; what the script hands to the shell is noted.
  Write("complete.zsh", R"(zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= ; cd $1; autoload -Uz compinit; compinit -u -d $1/dump; source ./script"
zpty -w shell 'compadd() { local -a found; builtin compadd -O found "$@"; print -rl -- $found >>./found; builtin compadd "$@"; }'
zpty -w shell 'print ready >./ready'
repeat 100; do [[ -e $1/ready ]] && break; sleep 0.1; done
zpty -n -w shell "colonnade $2"$'\t'
sleep 1
zpty -d shell
cat $1/found
)");
  const auto offered = [&](const std::string& line) {
    for (const char* file : {"found", "ready"}) std::filesystem::remove(In(file));
    Write("found", "");
    const std::string output = ShellOutput(absl::StrCat("zsh -f ", In("complete.zsh"), " ", path_, " '", line, "'"));
    const std::vector<std::string> words = absl::StrSplit(output, '\n', absl::SkipEmpty());
    return std::set<std::string>(words.begin(), words.end());
  };
  EXPECT_THAT(offered("tr"), Contains("train"));
  EXPECT_THAT(offered("train --model=resnet10"), Contains("resnet101"));
  EXPECT_THAT(offered("train --dropout="), ::testing::IsSupersetOf({"on", "off"}));
  EXPECT_THAT(offered("train --init=my"), Contains("my_weights"));
  EXPECT_THAT(offered("checkpoint sh"), Contains("show"));
  EXPECT_THAT(offered("bench tr"), Contains("transfers"));
  EXPECT_THAT(offered("bench step --model=resnet10"), Contains("resnet101"));
}

}  // namespace
}  // namespace colonnade::cli
