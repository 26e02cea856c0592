// The log of a run and its event files: lines, and what the command leaves of them.

#include "cli/training/run_log.h"

#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<json> LinesOf(const std::string& path) {
  std::vector<json> lines;
  for (const auto line : absl::StrSplit(*engine::ReadFile(path), '\n', absl::SkipEmpty()))
    lines.push_back(json::parse(line));
  return lines;
}

// Steps and losses of a log's steps, in its order.
std::vector<std::pair<int64_t, double>> LossesOf(const std::vector<json>& lines) {
  std::vector<std::pair<int64_t, double>> losses;
  for (const json& line : lines) {
    if (line.contains("loss")) losses.emplace_back(line["step"], line["loss"]);
  }
  return losses;
}

TEST(LogLines, OfAStepHasTheseKeys) {
  EXPECT_EQ(LogLine(StepJson(
                {.step = 3, .epoch = 0.5, .loss = 2.25, .learning_rate = 0.125, .images_per_s = 1000, .seconds = 1.5})),
            "{\"step\":3,\"epoch\":0.5,\"loss\":2.25,\"lr\":0.125,\"images_per_s\":1000.0,\"seconds\":1.5}\n");
}

TEST(LogLines, OfAnEvaluationHasTheseKeys) {
  const engine::EvalReport test{.count = 8, .top1_hits = 2, .top5_hits = 4, .loss = 1.5};
  EXPECT_EQ(LogLine(EvaluationJson({.step = 3, .test = test, .seconds = 2})),
            "{\"step\":3,\"test\":{\"top1\":0.25,\"top5\":0.5,\"loss\":1.5,\"count\":8},\"seconds\":2.0}\n");
}

TEST(LogLines, AreJsonAlsoWhereALossIsNotFinite) {
  const std::string line = LogLine(StepJson({.step = 1, .loss = std::nan("")}));
  EXPECT_TRUE(json::parse(line)["loss"].is_null()) << line;
}

TEST(RunCourse, CountsEpochsFromWhereTheRunBegan) {
  const RunCourse course{.start = {.step = 10, .sample = 50}, .batch = 25, .samples = 100};
  EXPECT_EQ(course.EpochsAfter(10), 0.5);
  EXPECT_EQ(course.EpochsAfter(14), 1.5);
}

TEST(WholeLogBytes, AreThoseOfWholeLines) {
  const std::string head = "{\"colonnade_log\":1}\n";
  EXPECT_EQ(*WholeLogBytes("f", ""), 0);
  EXPECT_EQ(*WholeLogBytes("f", head), 20);
  EXPECT_EQ(*WholeLogBytes("f", head + "{}\n{\"st"), 23);
  for (size_t torn = 0; torn < head.size(); ++torn) EXPECT_EQ(*WholeLogBytes("f", head.substr(0, torn)), 0);
  for (const char* other : {"notes\n", "{}\n", "[1]\n", "1\n", "{\"colonnade_log\":2}\n", "\n"}) {
    const absl::Status status = WholeLogBytes("file", other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    EXPECT_THAT(std::string(status.message()), HasSubstr("file: expected the log of a run"));
  }
}

using Records = Command;

TEST_F(Records, HaveALineForTheRunForEachStepAndForTheTest) {
  const Result r = Run(absl::StrCat(kTrainDigits, "--steps=4 --lr-policy=step:2,0.5 --json --log=", In("l.jsonl")));
  ASSERT_EQ(r.code, 0) << r.err;
  const json result = json::parse(r.out);
  const std::vector<json> lines = LinesOf(In("l.jsonl"));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0]["first_step"], 0);
  EXPECT_EQ(lines[0]["steps"], 4);
  EXPECT_EQ(lines[0]["run"]["model"], "two_column");
  EXPECT_THAT(lines[0]["config"].get<std::string>(), HasSubstr("width = 0.25\n"));
  double before = 0;
  for (int step = 1; step <= 4; ++step) {
    const json& line = lines[step];
    EXPECT_EQ(line["step"], step);
    EXPECT_EQ(line["loss"], result["losses"][step - 1]);
    EXPECT_EQ(line["lr"], step <= 2 ? 0.01 : 0.005);
    EXPECT_NEAR(line["epoch"].get<double>(), 64.0 * step / 1437, 1e-12);
    EXPECT_GT(line["images_per_s"], 0);
    EXPECT_GE(line["seconds"], before);
    before = line["seconds"];
  }
  EXPECT_EQ(lines[5]["step"], 4);
  EXPECT_EQ(lines[5]["test"], result["test"]);
  EXPECT_GE(lines[5]["seconds"], before);
}

TEST_F(Records, OfARunThatGoesOnFollowThoseBefore) {
  const std::string all = absl::StrCat(kTrainDigits, "--resume --checkpoint=", In("run"), " --log=", In("l.jsonl"),
                                       " --tensorboard=", In("tb"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(all, 3)).code, 0);
  Write("l.jsonl", absl::StrCat(*engine::ReadFile(In("l.jsonl")), "{\"step\":4,\"lo"));  // as where it was killed
  const Result second = Run(absl::StrCat(all, 5));
  ASSERT_EQ(second.code, 0) << second.err;
  const std::vector<json> lines = LinesOf(In("l.jsonl"));
  ASSERT_EQ(lines.size(), 5u + 4);
  EXPECT_EQ(lines[5]["first_step"], 3);
  EXPECT_EQ(lines[5]["steps"], 5);
  std::vector<int64_t> steps;
  for (const auto& [step, loss] : LossesOf(lines)) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_NEAR(lines[6]["epoch"].get<double>(), 64.0 * 4 / 1437, 1e-12);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(In("tb")), {}), 2);
}

// A line of no step is none, whatever it holds.
TEST_F(Records, OfARunThatGoesOnFollowALineOfListsInLists) {
  const std::string all =
      absl::StrCat(kTrainDigits, "--resume --checkpoint=", In("run"), " --log=", In("l.jsonl"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(all, 1)).code, 0);
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  Write("l.jsonl", absl::StrCat(*engine::ReadFile(In("l.jsonl")), R"({"step":1,"a":)", deep, R"(,"b":1,"c":1})", "\n"));
  const Result r = Run(absl::StrCat(all, 2, " --curves=", In("c.svg")));
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Records, OfARunThatBeginsAnewAreNoneOfAnother) {
  const std::string all = absl::StrCat(kTrainDigits, "--log=", In("l.jsonl"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(all, 3)).code, 0);
  const std::string log = *engine::ReadFile(In("l.jsonl"));
  ExpectError(absl::StrCat(all, 1), 2,
              {"--log: expected a new file, or --resume to go on with the run of this log", "which has the steps of a run"});
  EXPECT_EQ(*engine::ReadFile(In("l.jsonl")), log);
  Write("l.jsonl", log.substr(0, log.find('\n') + 1));  // of a run that did no step
  ASSERT_EQ(Run(absl::StrCat(all, 1)).code, 0);
  EXPECT_EQ(LinesOf(In("l.jsonl")).size(), 3u);
}

// A run that is started again and again goes on with its log, be there a checkpoint yet or not.
TEST_F(Records, OfARunThatMayGoOnAreReplacedWhereNoCheckpointIsThere) {
  const auto train = [&](const char* folder, const char* flags) {
    return absl::StrCat(kTrainDigits, flags, " --checkpoint=", In(folder), " --log=", In("l.jsonl"));
  };
  ASSERT_EQ(Run(train("run", "--steps=3")).code, 0);
  std::filesystem::remove_all(In("run"));
  const std::string log = *engine::ReadFile(In("l.jsonl"));
  ExpectError(train("mistyped", "--steps=1 --resume"), 2, {"l.jsonl, which has the steps of a run"});
  EXPECT_EQ(*engine::ReadFile(In("l.jsonl")), log);
  ASSERT_EQ(Run(train("run", "--steps=1 --resume")).code, 0);
  EXPECT_EQ(LinesOf(In("l.jsonl")).size(), 3u);
}

TEST_F(Records, OfARunThatMayGoOnAreReplacedWhateverItsFolderIsCalledAndFromWherever) {
  std::filesystem::create_directory(In("elsewhere"));
  const auto run_in = [&](const std::string& folder, const std::string& arguments) {
    const Result r = Wait(Start(absl::StrCat(kTrainDigits, arguments, " --log=", In("l.jsonl")),
                                [&] { std::filesystem::current_path(folder); }));
    EXPECT_EQ(r.code, 0) << r.err;
  };
  for (const std::string name : {"zé", "a\"b", "a\\b", "run/"}) {
    std::filesystem::remove(In("l.jsonl"));
    run_in(path_, absl::StrCat("--steps=2 --checkpoint=", name));
    std::filesystem::remove_all(In(name));
    run_in(In("elsewhere"), absl::StrCat("--steps=1 --resume --checkpoint=../", name));
    EXPECT_EQ(LinesOf(In("l.jsonl")).size(), 3u) << name;
  }
}

// TensorBoard then leaves out what the run before wrote.
TEST_F(Records, OfEventsOfARunThatMayGoOnAndBeginsAnewSayThatItRestarts) {
  const std::string run = absl::StrCat(kTrainDigits, "--steps=1 --tensorboard=", In("tb"), " --resume --checkpoint=");
  ASSERT_EQ(Run(absl::StrCat(run, In("run"))).code, 0);
  const std::filesystem::directory_iterator events(In("tb"));
  EXPECT_THAT(*engine::ReadFile(events->path()), HasSubstr("\x10\x01\x3a\x02\x08\x01"))
      << "step 1, and a session that starts";
}

TEST_F(Records, OfCurvesAreReplacedWithTheirDrawing) {
  const std::string all = absl::StrCat(kTrainDigits, "--steps=1 --curves=", In("c.svg"));
  ASSERT_EQ(Run(all).code, 0);
  EXPECT_EQ(Run(all).code, 0);
  std::filesystem::remove(In("c.svg"));
  ExpectError(all, 2, {"--curves: expected a new file", "c.jsonl, which has the steps of a run"});
}

TEST_F(Records, ThatWereAskedForAreNotReplacedWithTheirDrawing) {
  const std::string all = absl::StrCat(kTrainDigits, "--checkpoint=", In("run"), " --curves=", In("c.svg"), " --steps=");
  const std::string log = absl::StrCat(" --log=", In("c.jsonl"));
  ASSERT_EQ(Run(absl::StrCat(all, 1, log)).code, 0);
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --curves=", In("c.svg")), 2,
              {"--curves: expected a new file", "c.jsonl, which has the steps of a run"});
  for (const char* name : {"c.jsonl", "run"}) std::filesystem::remove_all(In(name));
  // Nor where it is the log of the run that goes on alone.
  ASSERT_EQ(Run(absl::StrCat(all, 1)).code, 0);
  const std::string longer = absl::StrCat("{\"a long line\":\"", std::string(1 << 20, 'x'), "\"}\n");
  Write("c.jsonl", absl::StrCat(*engine::ReadFile(In("c.jsonl")), longer));
  ASSERT_EQ(Run(absl::StrCat(all, 2, " --resume", log)).code, 0);
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --curves=", In("c.svg")), 2, {"--curves: expected a new file"});
  EXPECT_EQ(LinesOf(In("c.jsonl")).size(), 3u + 1 + 3);
}

TEST_F(Records, ThatAreOfARunInAnotherFolderAreWarnedOf) {
  const auto run = [&](const std::string& flags, int steps) {
    const Result r = Run(absl::StrCat(kTrainDigits, "--steps=", steps, " --log=", In("l.jsonl"), " ", flags));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };
  const std::string a = absl::StrCat("--checkpoint=", In("a")), b = absl::StrCat("--checkpoint=", In("bé"));
  constexpr char kWarning[] = "is of a run whose checkpoints are in ";
  run(a, 1);
  json head = LinesOf(In("l.jsonl"))[0];
  EXPECT_EQ(head["checkpoint"], In("a"));
  EXPECT_TRUE(head["resume"].is_null());
  EXPECT_THAT(run(absl::StrCat(a, " --resume"), 2), Not(HasSubstr(kWarning)));
  // On from there, into another folder, twice.
  EXPECT_THAT(run(absl::StrCat(b, " --resume=", In("a")), 3), Not(HasSubstr(kWarning)));
  EXPECT_THAT(run(absl::StrCat(b, " --resume"), 4), Not(HasSubstr(kWarning)));
  ASSERT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --checkpoint=", In("c"))).code, 0);
  EXPECT_THAT(run(absl::StrCat("--resume --checkpoint=", In("c")), 2),
              HasSubstr(absl::StrCat("warning: --log: ", In("l.jsonl"), " ", kWarning, In("bé"),
                                     ", and this run goes on from ", In("c"))));
}

TEST_F(Records, GoOnInNoOtherFile) {
  const std::string all = absl::StrCat(kTrainDigits, "--resume --checkpoint=", In("run"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(all, 1)).code, 0);
  Write("notes", "mine\n");
  ExpectError(absl::StrCat(all, "2 --log=", In("notes")), 65, {"notes: expected the log of a run"});
  EXPECT_EQ(*engine::ReadFile(In("notes")), "mine\n");
}

TEST_F(Records, GoOnInTheLogOfNoOtherNetwork) {
  const std::string other =
      absl::StrCat("train --model=resnet20 --width=0.125 --data=digits --batch=8 --steps=1 --log=", In("l.jsonl"));
  ASSERT_EQ(Run(other).code, 0);
  const std::string all = absl::StrCat(kTrainDigits, "--resume --checkpoint=", In("run"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(all, 1)).code, 0);
  ExpectError(
      absl::StrCat(all, "2 --log=", In("l.jsonl")), 65,
      {"l.jsonl: expected the log of this run, whose model is two_column, found that of a run whose model is \"resnet20\""});
}

TEST_F(Records, BeginAnewInNoOtherFile) {
  for (const std::string& contents : {std::string("mine\n"), std::string("\x89PNG\r\n", 6)}) {
    Write("notes", contents);
    ExpectError(
        absl::StrCat(kTrainDigits, "--steps=1 --log=", In("notes")), 65,
        {"--log: ",
         "notes: expected the log of a run, whose first line has \"colonnade_log\": 1, found a file that begins with",
         "name another file, or remove this one"});
    EXPECT_EQ(*engine::ReadFile(In("notes")), contents);
  }
  Write("plot.jsonl", "{\"mine\": 1}\n");
  ExpectError(absl::StrCat(kTrainDigits, "--steps=1 --curves=", In("plot.svg")), 65,
              {"--curves: ", "begins with \"{\\\"mine\\\": 1}\""});
}

// Its process was killed within the first line.
TEST_F(Records, BeginAnewInALogThatEndsInItsFirstLine) {
  for (const std::string contents : {"", "{\"colon", "{\"colonnade_log\":1,\"first_st"}) {
    Write("log.jsonl", contents);
    EXPECT_EQ(Run(absl::StrCat(kTrainDigits, "--steps=1 --log=", In("log.jsonl"))).code, 0) << contents;
    EXPECT_THAT(*engine::ReadFile(In("log.jsonl")), StartsWith("{\"colonnade_log\":1,\"first_step\":0,")) << contents;
  }
}

TEST_F(Records, OfARunThatGoesOnBeginAnewInALogThatEndsInItsFirstLine) {
  const std::string run = absl::StrCat(kTrainDigits, "--checkpoint=", In("run"), " --resume ");
  ASSERT_EQ(Run(absl::StrCat(run, "--steps=1")).code, 0);
  Write("log.jsonl", "{\"colonnade_log\":1,\"first_st");
  const Result r = Run(absl::StrCat(run, "--steps=2 --log=", In("log.jsonl")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(*engine::ReadFile(In("log.jsonl")), StartsWith("{\"colonnade_log\":1,\"first_step\":1,"));
}

TEST_F(Records, ThatCannotBeWrittenAre74BeforeTheFirstStep) {
  Write("file", "x");
  for (const char* flag : {"--log=", "--tensorboard="}) {
    const Result r = Run(absl::StrCat(kTrainDigits, "--steps=100000000 ", flag, In("file"), "/below"));
    EXPECT_EQ(r.code, 74) << r.err;
    EXPECT_THAT(r.err, StartsWith("colonnade: cannot "));
    EXPECT_THAT(r.err, HasSubstr("file"));
  }
  ExpectError(absl::StrCat(kTrainDigits, "--log=", In("one"), " --save=", In("one")), 2,
              {"--log: expected a file of its own", "one, which is that of --save"});
}

TEST_F(Records, ThatFindNoRoomEndWith74AndTheResults) {
  const Result r = Wait(Start(absl::StrCat(kTrainDigits, "--steps=300 --json --log=", In("l.jsonl")), [] {
    const rlimit most{.rlim_cur = 20000, .rlim_max = 20000};  // of the result, too, which takes some 12,000
    ::setrlimit(RLIMIT_FSIZE, &most);
  }));
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_EQ(json::parse(r.out)["losses"].size(), 300u);
  EXPECT_THAT(r.err, HasSubstr("warning: what the run records is not complete: cannot write"));
  EXPECT_LT(LinesOf(In("l.jsonl")).size(), 301u);  // each of them whole
}

}  // namespace
}  // namespace colonnade::cli
