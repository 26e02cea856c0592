// Curves of a run: what a log says, smoothed, thinned and drawn.

#include "cli/training/curves.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/training/run_log.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

TEST(CurvesOf, AreThoseOfStepsAndTests) {
  const RunCurves curves = CurvesOf(
      "{\"colonnade_log\":1,\"first_step\":0}\n{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"loss\":null}\n"
      "{\"step\":2,\"test\":{\"top1\":0.25,\"top5\":0.5,\"loss\":9}}\n{\"step\":3,\"loss\":2}\n");
  EXPECT_THAT(curves.loss, ElementsAre(Pair(1, 3.5), Pair(3, 2)));
  EXPECT_THAT(curves.top1, ElementsAre(Pair(2, 25)));
  EXPECT_THAT(curves.top5, ElementsAre(Pair(2, 50)));
}

TEST(CurvesOf, TakeStepsFromTheRunThatWentOn) {
  const RunCurves curves = CurvesOf(
      "{\"colonnade_log\":1,\"first_step\":0}\n{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n"
      "{\"step\":2,\"test\":{\"top1\":0.5}}\n{\"colonnade_log\":1,\"first_step\":1}\n{\"step\":2,\"loss\":20}\n");
  EXPECT_THAT(curves.loss, ElementsAre(Pair(1, 1), Pair(2, 20)));
  EXPECT_THAT(curves.top1, IsEmpty());
}

TEST(CurvesOf, PassOverWhatIsNoLineOfALog) {
  const RunCurves curves = CurvesOf(
      "\n[1]\nnotes\n{\"step\":\"1\",\"loss\":1}\n{\"loss\":1}\n{\"step\":4,\"test\":null}\n{\"step\":4,\"test\":{\"top1\":["
      "]}}\n"
      "{\"colonnade_log\":1,\"first_step\":null}\n{\"step\":5,\"loss\":0.5}\n{\"step\":6,\"lo");
  EXPECT_THAT(curves.loss, ElementsAre(Pair(5, 0.5)));
  EXPECT_THAT(curves.top1, IsEmpty());
}

TEST(Smoothed, OfOneValueIsThatValueAndOfAStepComesNearIt) {
  for (const auto& [step, value] : Smoothed({{1, 2}, {2, 2}, {9, 2}}, 3)) EXPECT_DOUBLE_EQ(value, 2) << step;
  Curve curve;
  for (int step = 1; step <= 100; ++step) curve.emplace_back(step, step <= 50 ? 0 : 1);
  const Curve smooth = Smoothed(curve, 10);
  EXPECT_EQ(smooth[49].second, 0);
  EXPECT_NEAR(smooth[59].second, 1 - std::exp(-1), 0.01);
  EXPECT_GT(smooth[99].second, 0.99);
}

TEST(Smoothed, WithoutAWindowIsTheCurve) {
  const Curve curve = {{1, 3}, {2, 1}};
  EXPECT_EQ(Smoothed(curve, 0), curve);
  EXPECT_THAT(Smoothed({}, 0), IsEmpty());
}

TEST(Thinned, KeepsTheExtremesInTheirOrder) {
  Curve curve;
  for (int step = 0; step < 1000; ++step) curve.emplace_back(step, step == 333 ? -5 : step == 334 ? 7 : 0);
  const Curve thin = Thinned(curve, 10);
  EXPECT_LE(thin.size(), 20u);
  EXPECT_THAT(thin, ::testing::Contains(Pair(333, -5)));
  EXPECT_THAT(thin, ::testing::Contains(Pair(334, 7)));
  EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end()));
  EXPECT_EQ(Thinned(curve, 500), curve);
  EXPECT_THAT(Thinned({{1, 5}}, 3), ElementsAre(Pair(1, 5)));
}

TEST(DrawCurves, HasAChartOfTestsWhereThereWereAny) {
  EXPECT_THAT(DrawCurves("net", {.loss = {{1, 2}, {2, 1}}}), Not(HasSubstr("top-1")));
  const std::string svg = DrawCurves("a < b", {.loss = {{1, 2}, {2, 1}}, .top1 = {{2, 50}}, .top5 = {{2, 90}}});
  for (const char* part : {"a &lt; b", "training loss", "smoothed", "test accuracy, %", "top-1", "top-5", "<circle "}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
}

TEST(LogPathOf, LiesBesideCurvesUnlessItIsNamed) {
  const auto path = [](const char* log, const char* curves) {
    RecordFlags flags;
    flags.log = log;
    flags.curves = curves;
    return LogPathOf(flags);
  };
  EXPECT_EQ(path("", ""), "");
  EXPECT_EQ(path("a", ""), "a");
  EXPECT_EQ(path("a", "b.svg"), "a");
  EXPECT_EQ(path("", "b.svg"), "b.jsonl");
  EXPECT_EQ(path("", "b"), "b.jsonl");
}

using CurvesOfTrain = Command;

TEST_F(CurvesOfTrain, AreDrawnAndGoOn) {
  const std::string run = absl::StrCat("train --model=two_column --data=digits --width=0.25 --eval-every=2 --resume ",
                                       "--checkpoint=", In("run"), " --curves=", In("c.svg"), " --steps=");
  ASSERT_EQ(Run(absl::StrCat(run, 3)).code, 0);
  EXPECT_THAT(*engine::ReadFile(In("c.svg")), HasSubstr("two_column"));
  ASSERT_EQ(Run(absl::StrCat(run, 5)).code, 0);
  const RunCurves curves = CurvesOf(*engine::ReadFile(In("c.jsonl")));
  ASSERT_EQ(curves.loss.size(), 5u);
  EXPECT_EQ(curves.top1.size(), 4u);  // after 2, 3, 4 and 5 steps
  EXPECT_EQ(*engine::ReadFile(In("c.svg")), DrawCurves("two_column", curves));
}

TEST_F(CurvesOfTrain, AreDrawnOfARunThatDiverges) {
  const Result r =
      Run(absl::StrCat("train --model=two_column --data=digits --width=0.25 --lr=1e30 --steps=50 --curves=", In("c.svg"),
                       " --log=", In("l")));
  EXPECT_EQ(r.code, 21) << r.err;
  EXPECT_THAT(*engine::ReadFile(In("c.svg")), HasSubstr("training loss"));
  EXPECT_FALSE(std::filesystem::exists(In("c.jsonl")));
}

TEST_F(CurvesOfTrain, ThatCannotBeWrittenAre74BeforeTheFirstStep) {
  Write("file", "x");
  ExpectError(absl::StrCat("train --model=two_column --data=digits --steps=100000000 --curves=", In("file"), "/c.svg"), 74,
              {"cannot write"});
  ExpectError(absl::StrCat("train --model=two_column --data=digits --curves=", In("c.svg"), " --trace=", In("c.jsonl")), 2,
              {"--log (for --curves): expected a file of its own", "c.jsonl, which is that of --trace"});
}

}  // namespace
}  // namespace colonnade::cli
