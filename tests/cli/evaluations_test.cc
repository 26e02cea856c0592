// Tests while training, and the target at which training ends.

#include "cli/training/evaluations.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
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
using ::testing::Not;

TEST(ParseEvaluationInterval, TakesStepsAndEpochs) {
  EXPECT_EQ(ParseEvaluationInterval("12")->steps, 12);
  EXPECT_EQ(ParseEvaluationInterval("12")->epochs, 0);
  EXPECT_EQ(ParseEvaluationInterval("3e")->epochs, 3);
  EXPECT_EQ(ParseEvaluationInterval("3e")->steps, 0);
  for (const char* bad : {"", "e", "0", "0e", "-1", "1.5", "1m", "1ee", "1e3", "99999999999999999999", "2000000000e"}) {
    EXPECT_FALSE(ParseEvaluationInterval(bad).has_value()) << bad;
  }
}

TEST(ParseTarget, TakesEachMetricWithinItsRange) {
  EXPECT_EQ(ParseTarget("top1:0.6")->metric, Target::Metric::kTop1);
  EXPECT_EQ(ParseTarget("top1:0.6")->value, 0.6);
  EXPECT_EQ(ParseTarget("top5:1")->metric, Target::Metric::kTop5);
  EXPECT_EQ(ParseTarget("loss:1.5")->metric, Target::Metric::kLoss);
  EXPECT_EQ(ParseTarget("loss:1.5")->value, 1.5);
  for (const char* bad : {"", "top1", "top1:", "top1:0", "top1:1.01", "top1:60", "top5:-1", "top1:nan", "loss:0", "loss:inf",
                          "loss:-1", "top2:0.5", "Top1:0.5", "top1:0.5x", "top1:0.5:1", "0.5", " top1:0.5"}) {
    EXPECT_FALSE(ParseTarget(bad).has_value()) << bad;
  }
}

TEST(Reaches, AccuraciesFromBelowAndLossesFromAbove) {
  const engine::EvalReport test{.count = 10, .top1_hits = 6, .top5_hits = 9, .loss = 1.5};
  using enum Target::Metric;
  EXPECT_TRUE(Reaches(test, {kTop1, 0.6}));
  EXPECT_FALSE(Reaches(test, {kTop1, 0.61}));
  EXPECT_TRUE(Reaches(test, {kTop5, 0.61}));
  EXPECT_FALSE(Reaches(test, {kTop5, 0.91}));
  EXPECT_TRUE(Reaches(test, {kLoss, 1.5}));
  EXPECT_FALSE(Reaches(test, {kLoss, 1.49}));
}

std::vector<int64_t> DueSteps(const EvaluationInterval& interval, const RunCourse& course, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = course.start.step + 1; step <= last; ++step) {
    if (IsEvaluationDue(interval, course, step)) steps.push_back(step);
  }
  return steps;
}

TEST(IsEvaluationDue, AfterEverySoManySteps) {
  EXPECT_THAT(DueSteps({.steps = 3}, {.start = {.step = 4}}, 12), ElementsAre(6, 9, 12));
}

// The first step that ends an epoch, or is in the next one.
TEST(IsEvaluationDue, AfterEverySoManyEpochsOfTheWholeRun) {
  EXPECT_THAT(DueSteps({.epochs = 1}, {.batch = 30, .samples = 100}, 11), ElementsAre(4, 7, 10));
  EXPECT_THAT(DueSteps({.epochs = 2}, {.batch = 50, .samples = 100}, 9), ElementsAre(4, 8));
  EXPECT_THAT(DueSteps({.epochs = 1}, {.batch = 250, .samples = 100}, 3), ElementsAre(1, 2, 3));
  const RunCourse resumed{.start = {.step = 2, .sample = 160}, .batch = 20, .samples = 100};
  EXPECT_THAT(DueSteps({.epochs = 1}, resumed, 12), ElementsAre(4, 9));
}

class EvaluationsOfTrain : public Command {
 protected:
  json Train(const std::string& rest) const {
    const Result r = Run(absl::StrCat(kTrainDigits, "--json ", rest));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out);
  }
  static std::vector<int64_t> StepsOf(const json& evaluations) {
    std::vector<int64_t> steps;
    for (const json& e : evaluations) steps.push_back(e["step"]);
    return steps;
  }
};

TEST_F(EvaluationsOfTrain, ArePrintedAndStandInTheResultAndTheLog) {
  const Result r = Run(absl::StrCat(kTrainDigits, "--steps=7 --eval-every=3 --json --log=", In("l")));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_THAT(StepsOf(j["evaluations"]), ElementsAre(3, 6, 7));
  EXPECT_EQ(j["evaluations"][2]["test"], j["test"]);
  EXPECT_TRUE(j["until"].is_null());
  EXPECT_THAT(r.err, HasSubstr("\nstep 3: test top-1 "));
  EXPECT_THAT(r.err, HasSubstr("\nstep 6: test top-1 "));
  std::vector<json> logged;
  for (const auto line : absl::StrSplit(*engine::ReadFile(In("l")), '\n', absl::SkipEmpty())) {
    if (json object = json::parse(line); object.contains("test")) logged.push_back(object);
  }
  EXPECT_EQ(json(logged), j["evaluations"]);
}

TEST_F(EvaluationsOfTrain, ChangeNoBitOfTheTraining) {
  for (const char* plan : {"--plan=single", "--plan=hybrid --devices=4"}) {
    const json plain = Train(absl::StrCat("--steps=12 --save=", In("plain"), " ", plan));
    const json tested = Train(absl::StrCat("--steps=12 --eval-every=1 --save=", In("tested"), " ", plan));
    EXPECT_EQ(tested["losses"], plain["losses"]) << plan;
    EXPECT_EQ(tested["test"], plain["test"]) << plan;
    EXPECT_EQ(*engine::ReadFile(In("tested")), *engine::ReadFile(In("plain"))) << plan;
    EXPECT_EQ(tested["evaluations"].size(), 12u);
  }
}

// The test after step 5 is that of a run of 5 steps.
TEST_F(EvaluationsOfTrain, FindWhatARunThatEndsThereFinds) {
  EXPECT_EQ(Train("--steps=8 --eval-every=5")["evaluations"][0]["test"], Train("--steps=5")["test"]);
}

TEST_F(EvaluationsOfTrain, OfTheLastStepAreMadeOnce) {
  EXPECT_THAT(StepsOf(Train("--steps=6 --eval-every=3")["evaluations"]), ElementsAre(3, 6));
  EXPECT_THAT(StepsOf(Train("--steps=6")["evaluations"]), ElementsAre(6));
}

TEST_F(EvaluationsOfTrain, EndTheRunWhereTheTargetIsReached) {
  const json all = Train("--batch=32 --steps=80 --eval-every=20");
  std::vector<double> top1;
  for (const json& e : all["evaluations"]) top1.push_back(e["test"]["top1"]);
  ASSERT_LT(top1[1], top1[2]);
  const std::string target = absl::StrFormat("--batch=32 --steps=80 --eval-every=20 --until=top1:%.6f", top1[2] - 1e-3);
  const json j = Train(absl::StrCat(target, " --save=", In("w")));
  EXPECT_EQ(j["steps"], 60);
  EXPECT_EQ(j["stopped"], false);
  EXPECT_EQ(j["test"], all["evaluations"][2]["test"]);
  EXPECT_EQ(j["until"]["metric"], "top1");
  EXPECT_EQ(j["until"]["reached"], true);
  EXPECT_EQ(j["until"]["step"], 60);
  EXPECT_EQ(j["until"]["value"], top1[2]);
  EXPECT_EQ(j["until"]["seconds"], j["evaluations"][2]["seconds"]);
  const Result printed = Run(absl::StrCat(kTrainDigits, target));
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.out, HasSubstr("is reached: top-1 "));
  EXPECT_THAT(printed.out, HasSubstr(" after 60 steps, "));
}

TEST_F(EvaluationsOfTrain, SayThatTheTargetIsNotReached) {
  const json j = Train("--steps=3 --until=top1:1");
  EXPECT_EQ(j["steps"], 3);
  EXPECT_EQ(j["until"]["reached"], false);
  EXPECT_TRUE(j["until"]["step"].is_null());
  EXPECT_TRUE(j["until"]["seconds"].is_null());
  const Result r = Run(absl::StrCat(kTrainDigits, "--steps=3 --until=loss:0.001"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("loss 0.0010 is not reached: the best was loss "));
}

TEST_F(EvaluationsOfTrain, NameTheBestWhereTheTargetIsNotReached) {
  const std::string run = "--batch=32 --steps=60 --eval-every=20 ";
  const json all = Train(run);
  double best = 0;
  for (const json& e : all["evaluations"]) best = std::max(best, e["test"]["top1"].get<double>());
  EXPECT_THAT(Run(absl::StrCat(kTrainDigits, run, "--until=top1:1")).out,
              HasSubstr(absl::StrFormat("the best was top-1 %.2f %% after ", 100 * best)));
}

TEST_F(EvaluationsOfTrain, AreMadeAfterEachEpochWhereThereIsATarget) {
  EXPECT_THAT(StepsOf(Train("--batch=479 --epochs=2 --until=loss:0.001")["evaluations"]), ElementsAre(3, 6));
}

TEST_F(EvaluationsOfTrain, OfARunThatGoesOnAfterItsTargetEndItAtOnce) {
  const std::string run = absl::StrCat("--steps=9 --until=top5:0.01 --eval-every=2 --resume --checkpoint=", In("run"));
  EXPECT_EQ(Train(run)["until"]["step"], 2);
  const json again = Train(run);
  EXPECT_EQ(again["steps"], 0);
  EXPECT_EQ(again["until"]["step"], 2);
}

TEST_F(EvaluationsOfTrain, OfARunThatGoesOnAreInTheLogOnce) {
  const std::string run =
      absl::StrCat("--eval-every=2 --until=top1:0.999 --resume --checkpoint=", In("run"), " --log=", In("log"), " --steps=");
  for (int steps : {2, 4, 4}) Train(absl::StrCat(run, steps));
  std::vector<int64_t> tested;
  for (const auto line : absl::StrSplit(*engine::ReadFile(In("log")), '\n', absl::SkipEmpty())) {
    if (const json object = json::parse(line); object.contains("test")) tested.push_back(object["step"]);
  }
  EXPECT_THAT(tested, ElementsAre(2, 4));
}

TEST_F(EvaluationsOfTrain, ThatAreStoppedAreNotReported) {
  const pid_t child = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --eval-every=1 --json"));
  AwaitMessage("step 9: test");
  ::kill(child, SIGINT);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 130) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["stopped"], true);
  for (const json& e : j["evaluations"]) EXPECT_EQ(e["test"]["count"], 360);
}

// The state of a run that a signal stopped in a test is saved, and its log lacks that test.
TEST_F(EvaluationsOfTrain, ThatWereStoppedAreMadeByTheRunThatGoesOn) {
  const std::string run = absl::StrCat("--eval-every=3 --checkpoint=", In("run"), " --log=", In("log"));
  const auto forget_test_of = [&](int step) {
    const std::string log = *engine::ReadFile(In("log"));
    const size_t test = log.find(absl::StrFormat("{\"step\":%d,\"test\"", step));
    ASSERT_NE(test, std::string::npos);
    Write("log", log.substr(0, test));
  };
  const auto go_on_to = [&](int steps) {
    return StepsOf(Train(absl::StrCat(run, " --resume --allow-change=lr --steps=", steps))["evaluations"]);
  };
  ASSERT_THAT(StepsOf(Train(absl::StrCat("--steps=3 ", run))["evaluations"]), ElementsAre(3));
  forget_test_of(3);
  EXPECT_THAT(go_on_to(5), ElementsAre(3, 5));
  forget_test_of(5);
  EXPECT_THAT(go_on_to(6), ElementsAre(6)) << "none was due after step 5";
  EXPECT_THAT(go_on_to(7), ElementsAre(7)) << "that of step 6 is there";
}

// The run that made the test was killed before its state was saved, and the next was stopped in the same test.
TEST_F(EvaluationsOfTrain, OfStepsThatWereNotKeptAreMadeAgain) {
  const std::string run = absl::StrCat("--eval-every=3 --checkpoint=", In("run"), " --log=", In("log"));
  Train(absl::StrCat("--steps=3 ", run));
  const std::string log = *engine::ReadFile(In("log"));
  const std::string second_head =
      absl::StrReplaceAll(log.substr(0, log.find('\n') + 1), {{"\"first_step\":0", "\"first_step\":1"}});
  Write("log", absl::StrCat(log, second_head));
  EXPECT_THAT(StepsOf(Train(absl::StrCat(run, " --resume --allow-change=lr --steps=4"))["evaluations"]), ElementsAre(3, 4));
}

TEST_F(EvaluationsOfTrain, AreAskedForInWordsThatAreUnderstood) {
  for (const char* bad : {"0", "1m", "x"}) {
    ExpectError(absl::StrCat(kTrainDigits, "--eval-every=", bad), 2, {"--eval-every", "steps, or of epochs", bad});
  }
  for (const char* bad : {"top1:60", "top2:0.5", "0.5", "loss:0"}) {
    ExpectError(absl::StrCat(kTrainDigits, "--until=", bad), 2, {"--until", "top1:X or top5:X", bad});
  }
}

}  // namespace
}  // namespace colonnade::cli
