// Checkpoints that are damaged, and runs that are stopped, killed or cannot write.

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/checkpointed.h"
#include "tests/environment.h"
#include "tests/sanitized.h"

namespace colonnade::cli {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Checkpointed, WhereNoneIsGoodNothingIsSetAsideAndNothingBegins) {
  TrainSteps(2);
  for (int64_t step : {1, 2}) ASSERT_TRUE(engine::ReplaceFile(At(step) + "/weights.safetensors", "x").ok());
  for (int again = 0; again < 2; ++again) {
    ExpectError(absl::StrCat(kTrainDigits, "--steps=3 --resume --checkpoint=", Run1()), 65,
                {At(2), "found 2 damaged", "another folder"});
  }
  const std::string said = Train(absl::StrCat("--steps=3 --resume --checkpoint=", Run1())).err;
  EXPECT_EQ(CountOf(said, "trying the one before"), 1) << said;
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
}

// Its weights are finite, and its mean training loss is the lowest; its test is not finite.
TEST_F(Checkpointed, ALastStepWhoseTestIsNotFiniteReplacesNothing) {
  const Result r =
      Run(absl::StrCat("train --model=two_column --data=digits --steps=12 --batch=16 --lr=0.01 "
                       "--lr-policy=multistep:11,1e30 --checkpoint-keep=1 --checkpoint-every=5 --checkpoint=",
                       In("run"), " --curves=", In("curves.svg")));
  EXPECT_EQ(r.code, 21) << r.err;
  EXPECT_THAT(r.err, HasSubstr("test batch"));
  EXPECT_EQ(engine::CheckpointSteps(In("run"))->back(), 10);
  EXPECT_TRUE(std::filesystem::exists(In("curves.svg"))) << "it may show why";
}

// Written while the training fails, by whose error alone it would be silent.
TEST_F(Checkpointed, OneThatCannotBeWrittenIsToldWhereTheTrainingFails) {
  const pid_t child = Start(absl::StrCat(kTrainDigits,
                                         "--lr=0.01 --lr-policy=multistep:6,1e30 --steps=50 "
                                         "--checkpoint-every=6 --checkpoint=",
                                         Run1()),
                            [] {
                              const rlimit limit{4096, 4096};
                              ::setrlimit(RLIMIT_FSIZE, &limit);
                            });
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 21) << r.err;
  EXPECT_THAT(r.err, ContainsRegex("warning: (a|the last) checkpoint was not saved: .*File too large"));
}

TEST_F(Checkpointed, ADamagedOneIsNamedAndTheOneBeforeTaken) {
  TrainSteps(3);
  const std::string file = At(3) + "/momentum.safetensors";
  std::string bytes = *engine::ReadFile(file);
  bytes[bytes.size() / 2] ^= 4;
  ASSERT_TRUE(engine::ReplaceFile(file, bytes).ok());
  ExpectError(absl::StrCat(kTrainDigits, "--steps=4 --resume=", At(3)), 65, {file, "tensor", "damaged"});
  const Result r = Train(absl::StrCat("--steps=4 --json --resume --checkpoint=", Run1()));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr(absl::StrCat("warning: ", file)));
  EXPECT_EQ(json::parse(r.out)["first_step"], 2);
  EXPECT_TRUE(std::filesystem::exists(Run1() + "/damaged-step-000000003"));
  ExpectAllGood();
}

TEST_F(Checkpointed, ExportOfADamagedOneNamesTheNewestGoodOne) {
  TrainSteps(3);
  const std::string out = absl::StrCat(" --out=", In("w"));
  const auto damage = [&](int64_t step) {
    const std::string file = At(step) + "/weights.safetensors";
    ASSERT_TRUE(engine::ReplaceFile(file, absl::StrCat(*engine::ReadFile(file), "x")).ok());
  };
  damage(3);
  ExpectError(absl::StrCat("checkpoint export ", Run1(), out), 65,
              {"the checkpoint is damaged; the newest good one is ", At(2)});
  damage(2);
  ExpectError(absl::StrCat("checkpoint export ", Run1(), out), 65, {"the newest good one is ", At(1)});
  EXPECT_FALSE(std::filesystem::exists(In("w")));
  EXPECT_EQ(Run(absl::StrCat("checkpoint export ", At(1), out)).code, 0);
  damage(1);
  const Result none = Run(absl::StrCat("checkpoint export ", Run1(), out));
  EXPECT_EQ(none.code, 65);
  EXPECT_THAT(none.err, ::testing::Not(HasSubstr("newest good")));
}

TEST_F(Checkpointed, OneOfWhichReadingHasEndedTwoProcessesIsSetAside) {
  TrainSteps(3);
  const auto mark = [&](int64_t step, const char* deaths) {
    ASSERT_TRUE(engine::ReplaceFile(At(step) + "/reading", deaths).ok());
  };
  mark(3, "1\n");
  const std::string train = absl::StrCat("--json --resume --checkpoint=", Run1());
  const Result once = Train(absl::StrCat(train, " --steps=3"));
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_EQ(json::parse(once.out)["first_step"], 3);
  EXPECT_FALSE(std::filesystem::exists(At(3) + "/reading")) << "this one lived";
  mark(3, "2\n");
  const Result twice = Train(absl::StrCat(train, " --steps=4"));
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_THAT(twice.err, HasSubstr(absl::StrCat("warning: ", At(3), ": the last 2 processes died while they read it")));
  EXPECT_EQ(json::parse(twice.out)["first_step"], 2);
  EXPECT_TRUE(std::filesystem::exists(Run1() + "/damaged-step-000000003"));
  // Where all are suspected none is.
  for (int64_t step : Steps()) mark(step, "2\n");
  const Result all = Train(absl::StrCat(train, " --steps=5"));
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(json::parse(all.out)["first_step"], 4);
  ExpectAllGood();
}

TEST_F(Checkpointed, ASecondRunOnOneFolderIsRefused) {
  const pid_t first = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --checkpoint=", Run1()));
  AwaitMessage("step ");
  std::filesystem::rename(In("err"), In("err1"));
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --resume --checkpoint=", Run1()), 74,
              {Run1(), absl::StrCat("process ", first)});
  ::kill(first, SIGKILL);
  Wait(first);
}

TEST_F(Checkpointed, SignalsSaveAndSayHowToGoOn) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 75}, {SIGUSR1, 75}}) {
    std::filesystem::remove_all(Run1());
    const pid_t child = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --json --checkpoint=", Run1()));
    AwaitMessage("step ");
    ::kill(child, signal);
    const Result r = Wait(child);
    EXPECT_EQ(r.code, code) << r.err;
    const int64_t steps = json::parse(r.out)["steps"];
    EXPECT_THAT(Steps(), ElementsAre(steps));
    ExpectAllGood();
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("a checkpoint of step ", steps, " is saved; --resume goes on")));
  }
}

// However often it is killed, wherever: what is there verifies, nothing that was there is lost, and the run goes on.
TEST_F(Checkpointed, KilledAtAnyMomentItGoesOn) {
  const int64_t kills = FromEnvironment("COLONNADE_KILLS", kSanitized ? 4 : 20);
  std::mt19937 random(5);
  int64_t newest = 0, inside = 0;
  for (int64_t kill = 0; kill < kills; ++kill) {
    const pid_t child =
        Start(absl::StrCat(kTrainDigits, "--epochs=100000 --checkpoint-every=1 --resume --checkpoint=", Run1()));
    AwaitMessage(newest > 0 ? "resumed from" : "step ");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));
    for (int i = 0; kill % 2 == 1 && i < 1'000'000 && HalfWritten() == 0; ++i) {  // every other inside a save
    }
    ::kill(child, SIGKILL);
    const Result r = Wait(child);
    ASSERT_EQ(r.code, 128 + SIGKILL) << r.err;
    EXPECT_THAT(r.err, Not(HasSubstr("warning")));
    ExpectAllGood();
    const int64_t now = Steps().empty() ? 0 : Steps().back();  // none before the first is written
    EXPECT_GE(now, newest);
    newest = now;
    inside += HalfWritten();
  }
  RecordProperty("killed_inside_a_save", static_cast<int>(inside));
  EXPECT_GE(inside, kills / 4) << "else the kills look at little";
  const Result r = Train(absl::StrCat("--json --steps=", newest + 2, " --resume --checkpoint=", Run1()));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["first_step"], newest);
  const json whole = json::parse(Train(absl::StrCat("--json --steps=", newest + 2)).out);
  EXPECT_EQ(json::parse(r.out)["losses"].back(), whole["losses"].back());
}

TEST_F(Checkpointed, AFolderThatGoesAwayIsToldAndTrainingGoesOn) {
  const pid_t child = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --checkpoint-every=1 --checkpoint=", Run1()));
  AwaitMessage("step ");
  std::filesystem::rename(Run1(), In("gone"));
  AwaitMessage("training goes on");
  ::kill(child, SIGTERM);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_THAT(r.err, HasSubstr(absl::StrCat("warning: a checkpoint was not saved: cannot make folder ", Run1())));
  EXPECT_THAT(r.out, HasSubstr("loss")) << "the results are shown all the same";
}

// All tests are alike, so the first is the best.
TEST_F(Checkpointed, OfABestTestThatCannotBeSavedTheNextIsSavedWhereThereIsRoom) {
  const auto limit_to = [](rlim_t bytes) { return rlimit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY}; };
  const pid_t child = Start(absl::StrCat(kTrainDigits,
                                         "--optimizer=pytorch --lr=1e-30 --epochs=100000 --eval-every=2 "
                                         "--checkpoint-every=100000000 --checkpoint=",
                                         Run1()),
                            [&] {
                              const rlimit little = limit_to(8192);
                              ::setrlimit(RLIMIT_FSIZE, &little);
                            });
  AwaitMessage("a checkpoint was not saved");
  const rlimit all = limit_to(RLIM_INFINITY);
  ASSERT_EQ(::prlimit(child, RLIMIT_FSIZE, &all, nullptr), 0);
  for (int i = 0; i < 200 && Steps().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(child, SIGKILL);
  Wait(child);
  EXPECT_FALSE(Steps().empty());
}

TEST_F(Checkpointed, AFileThatCannotGrowLosesNothingOlder) {
  TrainSteps(2);
  const pid_t child = Start(absl::StrCat(kTrainDigits, "--steps=5 --checkpoint-every=1 --resume --checkpoint=", Run1()), [] {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_THAT(r.err, HasSubstr("weights.safetensors: File too large"));
  EXPECT_THAT(r.err, HasSubstr("training goes on"));
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  ExpectAllGood();
}

TEST_F(Checkpointed, WhereNoneCouldBeWrittenThereIsNoLast) {
  TrainSteps(1);
  const Result r =
      Wait(Start(absl::StrCat(kTrainDigits, "--steps=2 --json --resume=", Run1(), " --checkpoint=", In("other")), [] {
        const rlimit limit{16384, 16384};  // of the result, too
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }));
  EXPECT_EQ(r.code, 74) << r.err;
  const json saved = json::parse(r.out)["checkpoints"];
  EXPECT_EQ(saved["failed"], 1);
  EXPECT_TRUE(saved["last_step"].is_null());
  EXPECT_TRUE(saved["bytes"].is_null());
}

}  // namespace
}  // namespace colonnade::cli
