// Runs the command as a process: what it prints, its exit code, what it leaves behind in a folder of the test's own.
#ifndef COLONNADE_TESTS_CLI_COMMAND_H_
#define COLONNADE_TESTS_CLI_COMMAND_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cpu/threads/cores.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/shell.h"
#include "tests/folder.h"
#include "tests/paths.h"
#include "tests/read_file.h"

namespace colonnade::cli {

struct Result {
  int code = -1;
  std::string out, err;
};

// The smallest network on the smallest set: a step takes milliseconds.
inline constexpr char kTrainDigits[] = "train --model=two_column --data=digits --width=0.25 ";

class Command : public Folder {
 protected:
  // Where OpenMP binds threads it has bound this one to one core, and what it starts would have that core alone.
  Command() { cpu::KeepToCores(cpu::CoresOfProcess()); }

  // Starts the command with its output in files, after `prepare` in the new process; the process id.
  pid_t Start(const std::string& arguments, const std::function<void()>& prepare = {}) const {
    for (const char* stream : {"out", "err"}) std::filesystem::remove(In(stream));  // of an earlier run
    std::fflush(nullptr);  // or the child would print this process's lines once more
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is ended leaves nothing behind
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);  // whatever those who test ignore
    std::vector<std::string> words = {kCommand};
    for (const auto word : absl::StrSplit(arguments, ' ', absl::SkipEmpty())) words.emplace_back(word);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (!std::freopen(In("out").c_str(), "w", stdout) || !std::freopen(In("err").c_str(), "w", stderr)) std::_Exit(99);
    if (prepare) prepare();
    ::execv(argv[0], argv.data());
    std::_Exit(98);
  }

  // Until the command has written `message` to stderr, or ten seconds.
  void AwaitMessage(const std::string& message) const {
    for (int i = 0; i < 200; ++i) {
      const absl::StatusOr<std::string> err = engine::ReadFile(In("err"));  // not there before the child has opened it
      if (err.ok() && err->find(message) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "no \"" << message << "\" on stderr";
  }

  Result Wait(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    Result result{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    result.out = *engine::ReadFile(In("out"));
    result.err = *engine::ReadFile(In("err"));
    return result;
  }

  Result Run(const std::string& arguments) const { return Wait(Start(arguments)); }

  // With the machine profiles of this test's folder.
  Result RunHere(const std::string& arguments) const {
    return Wait(Start(arguments, [&] { ::setenv("XDG_CACHE_HOME", path_.c_str(), 1); }));
  }

  // One clear message and the exit code; nothing on stdout.
  void ExpectError(const std::string& arguments, int code, const std::vector<std::string>& parts) const {
    const Result r = Run(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_EQ(r.out, "") << arguments;
    std::vector<std::string> lines = absl::StrSplit(r.err, '\n', absl::SkipEmpty());
    ASSERT_FALSE(lines.empty()) << arguments;
    EXPECT_EQ(lines.back().substr(0, 11), "colonnade: ") << arguments;
    for (const std::string& part : parts) EXPECT_THAT(lines.back(), ::testing::HasSubstr(part)) << arguments;
  }

  // All sub-commands, by what is typed: "train", "bench step".
  std::vector<std::string> AllCommands() const {
    std::vector<std::string> all;
    for (const std::string& name : SubCommandsOfHelp(Run("--help").out)) {
      const std::vector<std::string> own = SubCommandsOfHelp(Run(absl::StrCat(name, " --help")).out);
      if (own.empty()) all.push_back(name);
      for (const std::string& one : own) all.push_back(absl::StrCat(name, " ", one));
    }
    return all;
  }

  // Leaves nothing in a file of weights but the tensors, as other programs write it.
  void ForgetTraining(const std::string& weights) const {
    ASSERT_TRUE(engine::SaveTensors(weights, engine::MapWeights(weights)->tensors).ok());
  }

  void Write(const std::string& name, const std::string& contents) const {
    ASSERT_TRUE(engine::ReplaceFile(In(name), contents).ok());
  }
};

}  // namespace colonnade::cli

#endif  // COLONNADE_TESTS_CLI_COMMAND_H_
