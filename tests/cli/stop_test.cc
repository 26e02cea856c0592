// What a run that is asked to stop shows, keeps and ends with.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/io/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/engine/load_weights.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const char kEndless[] = "train --model=two_column --data=digits --width=0.25 --epochs=100000 ";

class Stop : public Command {
 protected:
  // Runs until the first step is shown, then sends `signal`.
  Result StopAfterSteps(const std::string& arguments, int signal) const {
    const pid_t child = Start(arguments);
    AwaitMessage("step ");
    ::kill(child, signal);
    return Wait(child);
  }
  // The same, and goes on sending it until the command has ended. Signals that come at once count as one.
  Result StopAgainAndAgain(const std::string& arguments, int signal) const {
    const pid_t child = Start(arguments);
    AwaitMessage("step ");
    for (siginfo_t ended{}; ended.si_pid == 0;) {
      ::kill(child, signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::waitid(P_PID, child, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    return Wait(child);
  }
};

TEST_F(Stop, ATestThatWasNotMadeIsNotReported) {
  const Result r = StopAfterSteps(kEndless, SIGINT);
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_THAT(r.out, HasSubstr("loss"));
  EXPECT_THAT(r.out, Not(HasSubstr("test")));
  EXPECT_THAT(r.err, HasSubstr("stopping after the steps that have begun; again to quit"));
}

TEST_F(Stop, JsonSaysThatARunWasStoppedOrWasNot) {
  const json stopped = json::parse(StopAfterSteps(absl::StrCat(kEndless, "--json"), SIGINT).out);
  EXPECT_EQ(stopped["stopped"], true);
  EXPECT_TRUE(stopped["test"].is_null());
  EXPECT_GT(stopped["steps"], 0);
  const json whole = json::parse(Run("train --model=two_column --data=digits --width=0.25 --steps=2 --json").out);
  EXPECT_EQ(whole["stopped"], false);
  EXPECT_EQ(whole["test"]["count"], 360);
}

TEST_F(Stop, SigtermSavesAndAsksToBeRunAgain) {
  const std::string saves = absl::StrCat("--json --save=", In("w.safetensors"), " --checkpoint=", In("run"));
  const Result r = StopAfterSteps(absl::StrCat(kEndless, saves), SIGTERM);
  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_TRUE(engine::LoadWeights(In("w.safetensors")).ok());
  EXPECT_EQ(json::parse(r.out)["stopped"], true);
  EXPECT_THAT(r.err, HasSubstr("is saved; --resume goes on"));
  EXPECT_THAT(r.err, HasSubstr("stopping after the steps that have begun\n")) << "a second SIGTERM does not quit";
}

// Whoever runs again what ended with 75 would begin anew each time.
TEST_F(Stop, SigtermWithWeightsAloneSavedIs143) {
  const Result r = StopAfterSteps(absl::StrCat(kEndless, "--save=", In("w.safetensors")), SIGTERM);
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_TRUE(engine::LoadWeights(In("w.safetensors")).ok());
  EXPECT_THAT(r.err, HasSubstr("the weights of the steps done are saved"));
}

TEST_F(Stop, SigtermWithNothingSavedIs143) {
  const Result r = StopAfterSteps(kEndless, SIGTERM);
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_THAT(r.out, HasSubstr("loss"));
}

TEST_F(Stop, ASecondSigtermDoesNotLoseWhatTheFirstKeeps) {
  const Result r =
      StopAgainAndAgain(absl::StrCat(kEndless, "--save=", In("w.safetensors"), " --checkpoint=", In("run")), SIGTERM);
  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_TRUE(engine::LoadWeights(In("w.safetensors")).ok());
}

TEST_F(Stop, ATerminalThatIsClosedIsAsSigterm) {
  const Result r =
      StopAfterSteps(absl::StrCat(kEndless, "--save=", In("w.safetensors"), " --checkpoint=", In("run")), SIGHUP);
  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_TRUE(engine::LoadWeights(In("w.safetensors")).ok());
}

// What was to be shown on it is lost, and no error.
TEST_F(Stop, ATerminalThatIsClosedAndWasTheOutputIsAsSigterm) {
  const pid_t child = Start(absl::StrCat(kEndless, "--checkpoint=", In("run")), [] {
    int ends[2];
    if (::pipe(ends) != 0) std::_Exit(97);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  });
  AwaitMessage("step ");
  ::kill(child, SIGHUP);
  EXPECT_EQ(Wait(child).code, 75);
}

TEST_F(Stop, UnderNohupATerminalThatIsClosedStopsNothing) {
  const pid_t child = Start(kEndless, [] { ::signal(SIGHUP, SIG_IGN); });
  AwaitMessage("step ");
  ::kill(child, SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(child, SIGTERM);
  EXPECT_EQ(Wait(child).code, 143) << "SIGTERM was what ended it";
}

// As in what a script starts in the background.
TEST_F(Stop, AnInterruptThatIsIgnoredFromTheBeginningStopsNothing) {
  const pid_t child = Start(kEndless, [] { ::signal(SIGINT, SIG_IGN); });
  AwaitMessage("step ");
  ::kill(child, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(child, SIGTERM);
  EXPECT_EQ(Wait(child).code, 143) << "SIGTERM was what ended it";
}

class StopAtTheEnd : public Stop {
 protected:
  std::string Log() const { return In("log"); }
  // Until the log has `part`, or a minute.
  void AwaitLog(const std::string& part) const {
    for (int i = 0; i < 30000; ++i) {
      const absl::StatusOr<std::string> log = engine::ReadFile(Log());
      if (log.ok() && absl::StrContains(*log, part)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "no " << part << " in the log";
  }
};

// Nothing is missing of such a run. Saving takes a while, since the network is large.
TEST_F(StopAtTheEnd, WhileAWholeRunIsSavedStopsNothing) {
  const pid_t child =
      Start(absl::StrCat("train --model=two_column --width=8 --data=digits --batch=8 --steps=1 --json --log=", Log(),
                         " --save=", In("w"), " --checkpoint=", In("run")));
  AwaitLog("\"test\"");
  ::kill(child, SIGTERM);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["stopped"], false);
  EXPECT_EQ(json::parse(r.out)["test"]["count"], 360);
}

// Testing takes a while, image by image.
TEST_F(StopAtTheEnd, InTheLastTestIsEarlyAndTheRunThatGoesOnMakesIt) {
  const std::string train = absl::StrCat(
      "train --model=two_column --data=digits --kernels=reference --batch=1 --steps=1 --json --resume --checkpoint=",
      In("run"), " --log=", Log());
  const pid_t child = Start(train);
  AwaitLog("\"step\":1,");
  ::kill(child, SIGTERM);
  const Result r = Wait(child);
  ASSERT_TRUE(r.code == 75 || r.code == 0) << r.err;
  const json stopped = json::parse(r.out);
  if (!stopped["test"].is_null()) GTEST_SKIP() << "the test ended before the signal came";
  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_EQ(stopped["stopped"], true);
  EXPECT_EQ(stopped["steps"], 1);
  const Result rest = Run(train);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(json::parse(rest.out)["test"]["count"], 360);
}

// As where a pager, or tee, has ended.
TEST_F(Stop, WhoNoLongerReadsWhatIsSaidEndsNoTraining) {
  const Result r = Wait(Start(absl::StrCat("train --model=two_column --data=digits --steps=3 --json --save=", In("w")), [] {
    int ends[2];
    if (::pipe(ends) != 0) std::_Exit(97);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  }));
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(json::parse(r.out)["steps"], 3);
  EXPECT_TRUE(std::filesystem::exists(In("w")));
}

TEST_F(Stop, WhoNoLongerReadsTheResultsEndsAllButATraining) {
  const auto unread = [] {
    int ends[2];
    if (::pipe(ends) != 0) std::_Exit(97);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  };
  EXPECT_EQ(Wait(Start("models", unread)).code, 128 + SIGPIPE);
  const Result train =
      Wait(Start(absl::StrCat("train --model=two_column --data=digits --steps=3 --save=", In("w")), unread));
  EXPECT_EQ(train.code, 74);
  EXPECT_TRUE(std::filesystem::exists(In("w")));
}

TEST_F(Stop, NothingThatIsPrintedGoesIntoFilesWhereStreamsAreClosed) {
  for (const std::vector<int>& closed : std::vector<std::vector<int>>{{0, 2}, {0, 1}, {0, 1, 2}}) {
    const bool has_output = std::find(closed.begin(), closed.end(), STDOUT_FILENO) == closed.end();
    for (const char* file : {"c", "log"}) std::filesystem::remove_all(In(file));
    const Result r =
        Wait(Start(absl::StrCat("train --model=two_column --data=digits --width=0.25 --steps=3 --json --log=", In("log"),
                                " --checkpoint=", In("c"), " --checkpoint-every=1"),
                   [&] {
                     for (int stream : closed) ::close(stream);
                   }));
    EXPECT_EQ(r.code, has_output ? 0 : 74);
    EXPECT_EQ(Run(absl::StrCat("checkpoint verify ", In("c"))).code, 0);
    const std::string lock = *engine::ReadFile(In("c/lock")), log = *engine::ReadFile(In("log"));
    EXPECT_LT(lock.size(), 12u) << lock;
    for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty()))
      EXPECT_TRUE(json::accept(line)) << line;
  }
}

// Loading takes seconds; the signal comes in the first.
TEST_F(Stop, BeforeTheFirstStepThereIsNothingToShowOrSave) {
  const pid_t child =
      Start(absl::StrCat("train --model=alexnet2012 --width=0.2 --batch=64 --json --save=", In("w.safetensors")));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(child, SIGTERM);
  const Result r = Wait(child);
  if (r.out.empty()) {
    EXPECT_EQ(r.code, 143);
    if (r.err.empty()) GTEST_SKIP() << "the signal came before the command had begun";
    EXPECT_THAT(r.err, HasSubstr("stopped before the first step, as asked; nothing was done"));
    return;
  }
  const json j = json::parse(r.out);
  if (j["steps"] != 0) GTEST_SKIP() << "a step ended before the signal came";
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_TRUE(j["breakdown"].empty());
  EXPECT_TRUE(j["test"].is_null());
  EXPECT_FALSE(std::filesystem::exists(In("w.safetensors")));
}

// As where a batch system takes the machine away while data are read.
TEST_F(Stop, BeforeTheFirstStepARunThatResumesIsToBeRunAgain) {
  for (const auto& [signal, code] : {std::pair{SIGTERM, 75}, {SIGINT, 130}}) {
    const pid_t child =
        Start(absl::StrCat("train --model=alexnet2012 --width=0.4 --batch=64 --resume --checkpoint=", In("run")));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(child, signal);
    const Result r = Wait(child);
    if (r.err.empty()) GTEST_SKIP() << "the signal came before the command had begun";
    EXPECT_EQ(r.code, code) << r.err;
  }
}

TEST_F(Stop, AStoppedEvalShowsWhatItHasTestedOrNothing) {
  ASSERT_EQ(Run(absl::StrCat("train --model=two_column --data=digits --steps=1 --save=", In("w.safetensors"))).code, 0);
  const pid_t child = Start(absl::StrCat(
      "eval --model=two_column --data=digits --batch=1 --kernels=reference --json --init=", In("w.safetensors")));
  AwaitMessage("data ");
  ::kill(child, SIGINT);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 130) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["stopped"], true);
  EXPECT_TRUE(j["test"].is_null() || j["test"]["count"] < 360) << r.out;
}

}  // namespace
}  // namespace colonnade::cli
