// Pages of --report: what a layer's name may do to one, and what becomes of the file where one cannot be written.
// tests/report_pages.py reads those of all commands, and opens them in a browser.
#include "cli/prediction/report.h"

#include <sys/resource.h>

#include <filesystem>
#include <random>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/prediction/prediction.h"
#include "cli/training/train_report.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/cli/command.h"
#include "tools/machines.h"

namespace colonnade::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "<script>alert(1)</script>";

// A network whose name, layer and plan are called so.
Prediction HostilePrediction() {
  layers::GraphBuilder net(kHostile);
  auto x = net.Input("images", {1, 8, 8});
  x = net.Flatten("flatten", x);
  x = net.FullyConnected(kHostile, x, {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  Prediction p{.machine = *tools::OpenMachine("titan-2013")};
  p.session.graph = *std::move(net).Build();
  p.session.plan = *partition::NamedPlan("data", p.session.graph, {.devices = 2, .global_batch = 8});
  p.session.plan.name = kHostile;
  p.lower = {.global_batch = 8};
  p.lowered = *partition::LowerRepresentatives(p.session.graph, p.session.plan, p.lower);
  p.simulation = *engine::Simulate(p.lowered, p.machine);
  return p;
}

class ReportFile : public Command {
 protected:
  std::string Read() const { return *engine::ReadFile(In("r.html")); }
};

TEST_F(ReportFile, ALayerCalledScriptIsText) {
  PredictionFlags flags;
  flags.report = In("r.html");
  flags.resolved = {{.name = "model", .values = {kHostile}}};
  ASSERT_TRUE(WritePredictionReport(flags, "simulate", HostilePrediction()).ok());
  const std::string page = Read();
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  // In the title, the plan, the timeline and the configuration.
  for (const char* part : {"<h1>&lt;script&gt;", "font-weight=\"bold\">&lt;script&gt;",
                           "<title>&lt;script&gt;alert(1)&lt;/script&gt; ", "model = &quot;&lt;script&gt;"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST_F(ReportFile, IsWrittenByTrainWithWhatWasMeasured) {
  const Result r = Run(absl::StrCat(
      "train --model=two_column --data=digits --plan=data --devices=2 --steps=3 --seed=7 --report=", In("r.html")));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string page = Read();
  for (const char* part : {"two_column under data on 2 devices", "training loss", "device 1, measured",
                           "The last steps, measured", "held in all", "seed = 7", "oneDNN"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// A CIFAR file alone has no test set, whose loss would end the run.
TEST_F(ReportFile, OfARunWithLossesThatAreNotFiniteLeavesThemOut) {
  std::minstd_rand random(1);
  std::string records(size_t{64} * 3073, '\0');
  for (size_t i = 0; i < records.size(); ++i) records[i] = static_cast<char>(i % 3073 == 0 ? random() % 10 : random() % 256);
  Write("images.bin", records);
  const Result r = Run(absl::StrCat("train --model=two_column --batch=16 --lr=0.01 --lr-policy=multistep:6,1e30 --steps=12 ",
                                    "--on-not-finite=skip --json --data=", In("images.bin"), " --report=", In("r.html")));
  ASSERT_EQ(r.code, 0) << r.err;
  ASSERT_THAT(r.out, HasSubstr("null")) << "no loss was not finite";
  EXPECT_THAT(Read(), HasSubstr("training loss"));
  EXPECT_THAT(Read(), Not(ContainsRegex("L[0-9.]+ -?nan"))) << "in a curve";
}

TEST_F(ReportFile, ThatCannotBeWrittenIsTheErrorOfTheTraining) {
  std::filesystem::create_directory(In("pages"));
  const pid_t child = Start(absl::StrCat(kTrainDigits, "--epochs=100000 --json --report=", In("pages"), "/r.html"));
  AwaitMessage("step ");
  std::filesystem::remove_all(In("pages"));
  ::kill(child, SIGTERM);
  const Result r = Wait(child);
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_THAT(nlohmann::json::parse(r.out)["error"].get<std::string>(), HasSubstr("r.html"));
}

// As on a GPU where a step is one graph.
TEST(BreakdownText, SaysThatTasksWereNotTimedRatherThanZeros) {
  EXPECT_EQ(BreakdownText({}), absl::StrCat(kTasksNotTimed, "\n"));
  EXPECT_THAT(BreakdownText({{.compute = absl::Milliseconds(3)}}),
              testing::ContainsRegex("device +compute.*\n +0 +3.00 +0.00"));
}

TEST_F(Command, TrainSaysOfManyDevicesTheLeastTheMedianAndTheMost) {
  const std::string train = "train --model=two_column --width=0.25 --data=digits --plan=data --steps=2 --batch=34 ";
  const std::string rows = "\n *least of 17 +[0-9].*\n *median +[0-9].*\n *most +[0-9].*\ntest: ";
  EXPECT_THAT(Run(train + "--devices=17").out, testing::ContainsRegex(rows));
  EXPECT_THAT(Run(train + "--devices=2").out, testing::ContainsRegex("\n *0 +[0-9].*\n *1 +[0-9].*\ntest: "));
}

TEST_F(ReportFile, OfTrainShowsTheForecastThatTheRunPrints) {
  const Result r =
      Run(absl::StrCat("train --model=two_column --data=digits --plan=data --devices=2 --steps=3 --machine=", kSourceDir,
                       "/bench/machines/cpu-2core.json --report=", In("r.html")));
  ASSERT_EQ(r.code, 0) << r.err;
  std::smatch printed;
  ASSERT_TRUE(std::regex_search(r.err, printed, std::regex("predicted ([0-9.]+ ms)"))) << r.err;
  const std::string page = Read();
  EXPECT_THAT(page, HasSubstr(absl::StrCat("step (measured: median)</th><td>", printed[1].str(), "</td>")));
  EXPECT_THAT(page, HasSubstr("device 1, predicted"));
  EXPECT_THAT(page, HasSubstr("Two steps, simulated on cpu-2core"));
}

TEST_F(ReportFile, OfARunThatTheProfileIsNotOfSaysWhyAsTheRunDoes) {
  const Result r = Run(
      absl::StrCat("train --model=two_column --data=digits --plan=data --devices=4 --steps=2 --machine=cpu-2core --report=",
                   In("r.html")));
  ASSERT_EQ(r.code, 0) << r.err;
  constexpr char kWhy[] = "no predicted times: --machine=cpu-2core is another machine than this one";
  EXPECT_THAT(r.err, HasSubstr(kWhy));
  EXPECT_THAT(Read(), HasSubstr(kWhy));
  EXPECT_THAT(Read(), HasSubstr("device 3, measured"));
}

TEST_F(ReportFile, StaysAsItWasWhereItCannotBeWritten) {
  Write("r.html", "<!DOCTYPE html>as it was");
  const std::string simulate =
      absl::StrCat("simulate --model=lenet --plan=data --devices=2 --machine=dgx1-v100 --draws=0 --report=", In("r.html"));
  const Result r = Wait(Start(simulate, [] {
    const rlimit limit{16384, 16384};  // less than a page
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }));
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_THAT(r.err, HasSubstr("cannot write"));
  EXPECT_EQ(Read(), "<!DOCTYPE html>as it was");
  ExpectError(absl::StrCat("simulate --model=lenet --machine=dgx1-v100 --report=", In("no"), "/r.html"), 74,
              {"cannot write"});
  ExpectError(absl::StrCat("train --model=lenet --report=", In("r.html"), " --trace=", In("r.html")), 2,
              {"--report: expected a file of its own", "r.html, which is that of --trace"});
}

}  // namespace
}  // namespace colonnade::cli
