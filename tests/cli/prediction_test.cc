// plan, simulate and table as processes: predictions for machines that need not be there.

#include <algorithm>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "partition/legality.h"
#include "partition/plan.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTitan[] = "--model=alexnet2012 --batch=256 --devices=4 --machine=titan-2013 ";

TEST_F(Command, PlanPrintsOneJsonObjectWithTheNamesThatScriptsRelyOn) {
  const Result r = Run(absl::StrCat("plan --plan=auto --json --save-plan=", In("p.json"), " --drawing=", In("p.svg"),
                                    " --trace=", In("t.json"), " ", kTitan));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  for (const char* key : {"model", "plan", "mesh", "global_batch", "machine", "layers", "predicted", "candidates"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_EQ(j["layers"][1]["name"], "conv1");
  EXPECT_EQ(j["predicted"]["per_device"].size(), 4u);
  const json& device = j["predicted"]["per_device"][0];
  for (const char* key : {"compute_ms", "exposed_communication_ms", "idle_ms", "sent_bytes", "peak_memory_bytes"}) {
    EXPECT_TRUE(device.contains(key)) << key;
  }
  EXPECT_NEAR(device["compute_ms"].get<double>() + device["exposed_communication_ms"].get<double>() +
                  device["input_wait_ms"].get<double>() + device["idle_ms"].get<double>(),
              j["predicted"]["step_ms"].get<double>(), 1e-3);
  // The plan that was written predicts the same.
  const Result again = Run(absl::StrCat("plan --plan=", In("p.json"), " --json ", kTitan));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["predicted"], j["predicted"]);
  EXPECT_TRUE(json::parse(*engine::ReadFile(In("t.json")))["traceEvents"].is_array());
  EXPECT_THAT(*engine::ReadFile(In("p.svg")), HasSubstr(">conv3<"));
}

// Each device normalises its own images, so running statistics are averaged over devices, which are no gradients.
TEST_F(Command, PlanCountsBytesOfGradientsApartFromThoseOfRunningStatistics) {
  const char* flags = "--model=resnet20 --batch-norm=ghost:32 --batch=128 --devices=4 --plan=data --machine=dgx1-v100";
  const Result r = Run(absl::StrCat("plan --json ", flags));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  constexpr int64_t kSends = 2 * (4 - 1);  // of a ring's 4 devices together, of each byte
  EXPECT_EQ(j["gradient_communication_bytes"], kSends * 4 * int64_t{269722});
  EXPECT_GT(j["statistics_communication_bytes"], 0);
  int64_t sent = 0, of_devices = 0;
  for (const json& layer : j["layers"]) sent += layer["communication_bytes"].get<int64_t>();
  for (const json& device : j["predicted"]["per_device"]) of_devices += device["sent_bytes"].get<int64_t>();
  EXPECT_EQ(sent + j["gradient_communication_bytes"].get<int64_t>() + j["statistics_communication_bytes"].get<int64_t>(),
            of_devices);
  EXPECT_THAT(Run(absl::StrCat("plan ", flags)).out, HasSubstr("\nrunning statistics   all-reduce "));
}

TEST_F(Command, PlansColumnsStandBelowEachOtherWhateverLayersAreCalled) {
  const std::string name(60, 'n');
  Write("net.json",
        absl::StrCat(R"({"colonnade_model": 1, "name": "net", "layers": [
    {"name": "images", "type": "Input", "sample_shape": [4, 1, 1]}, {"name": ")",
                     name, R"(", "type": "Flatten"}, {"name": "fc", "type": "FullyConnected", "out_features": 10},
    {"name": "loss", "type": "SoftmaxCrossEntropy"}]})"));
  const Result r = Run(absl::StrCat("plan --plan=single --batch=8 --machine=dgx1-v100 --model=", In("net.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string out = "\n" + r.out;
  for (const std::string& start : std::vector<std::string>{"layer ", "images ", name, "fc ", "gradients "}) {
    const size_t at = out.find("\n" + start) + 1;
    ASSERT_NE(at, 0u) << start;
    const std::string row = out.substr(at, out.find('\n', at) - at);
    EXPECT_EQ(row.size(), name.size() + 1 + 18 + 1 + 12) << row;
  }
}

TEST_F(Command, PlanRefusesToDrawForGraphviz) {
  ExpectError(absl::StrCat("plan --drawing=", In("p.dot"), " ", kTitan), 2,
              {"--drawing: expected a file that ends in .svg or .txt"});
}

TEST_F(Command, PlanExplainsOneLayer) {
  const Result r = Run(absl::StrCat("plan --plan=hybrid --explain=conv3 ", kTitan));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("as planned"));
  EXPECT_THAT(r.out, HasSubstr("batch, replicate"));
  const std::string long_names = Run(absl::StrCat("plan --plan=hybrid --explain=fc6 ", kTitan)).out;
  const std::string tasks = long_names.substr(long_names.find("\ntask ") + 1);
  EXPECT_THAT(tasks, HasSubstr("\nfully_connected_backward_weights "));
  for (const absl::string_view line : absl::StrSplit(tasks, '\n', absl::SkipEmpty())) {
    EXPECT_EQ(line.size(), tasks.find('\n')) << line << " ends where its header does";
  }
  ExpectError("plan --plan=auto --devices=4 --explain=fc1 --model=alexnet2012 --machine=titan-2013", 2,
              {"--explain: network alexnet2012 has no layer \"fc1\"; did you mean \"fc6\"?"});
  ExpectError("plan --plan=auto --devices=4 --batch=1048576 --explain=fc1 --model=alexnet2012 --machine=titan-2013", 2,
              {"has no layer \"fc1\""});  // a search would find that no plan fits
  const Result typo = Run(absl::StrCat("plan --plan=hybrid --explain=con3 ", kTitan));
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.err, HasSubstr("has no layer \"con3\"; did you mean \"conv3\"?"));
  const Result none = Run(absl::StrCat("plan --plan=hybrid --explain=zzzzzz ", kTitan));
  EXPECT_THAT(none.err, HasSubstr("has no layer \"zzzzzz\"; expected one of images, conv1, "));
}

TEST_F(Command, PlanExplainsTheSameInJson) {
  const std::string explain = absl::StrCat("plan --plan=hybrid --explain=conv3 ", kTitan);
  const Result text = Run(explain), r = Run(absl::StrCat(explain, " --json"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out), explained = j["explained"];
  EXPECT_TRUE(j.contains("predicted"));
  EXPECT_EQ(explained["layer"], "conv3");
  int planned = 0;
  for (const json& s : explained["strategies"]) {
    const bool is_planned = s["is_planned"];
    planned += is_planned;
    EXPECT_THAT(text.out, HasSubstr(absl::StrFormat("\n%-20s %9.2f%s\n", s["strategy"].get<std::string>(),
                                                    s["step_ms"].get<double>(), is_planned ? "  as planned" : "")));
    EXPECT_EQ(s["step_ms"] == j["predicted"]["step_ms"], is_planned);
  }
  EXPECT_EQ(planned, 1);
  EXPECT_GT(explained["strategies"].size(), 2);
  ASSERT_FALSE(explained["tasks"].empty());
  int64_t sent = 0, convolutions = 0;
  for (const json& task : explained["tasks"]) {
    convolutions += task["task"] == "conv_forward";
    sent += task["sent_bytes"].get<int64_t>();
    EXPECT_THAT(text.out,
                HasSubstr(absl::StrFormat("%-29s %-8s %9.3f %7.0f %10.3f\n", task["task"].get<std::string>(),
                                          task["pass"].get<std::string>(), task["task_ms"].get<double>(),
                                          task["flops"].get<double>() / 1e6, task["sent_bytes"].get<double>() / 1e6)));
  }
  EXPECT_GT(sent, 0);
  EXPECT_EQ(convolutions, 1) << "of one step on one device";
}

TEST_F(Command, SaysWhereTheBatchDoesNotDivideIntoSoManyParts) {
  const std::string train =
      "train --model=lenet --data=synthetic --steps=1 --plan=owt --devices=2 --batch=20 --transfer-parts=";
  EXPECT_THAT(Run(train + "4").err, HasSubstr("note: activations move in 2 parts of the batch, not 4"));
  EXPECT_THAT(Run(train + "2").err, Not(HasSubstr("activations move in")));
  const Result data =
      Run("train --model=lenet --data=synthetic --steps=1 --plan=data --devices=2 --batch=20 --transfer-parts=4");
  EXPECT_THAT(data.err, Not(HasSubstr("activations move in"))) << "where none move";
  ExpectError(train + "0", 2, {"--transfer-parts: expected a whole number from 1 to 64, found \"0\""});
  ExpectError(train + "65", 2, {"--transfer-parts: expected a whole number from 1 to 64, found \"65\""});
}

TEST_F(Command, APlanForMoreDevicesThanTheMachineHasIsWrittenAndDrawnWithoutAPrediction) {
  const std::string plan = "plan --model=two_column --plan=hybrid --devices=4 --machine=cpu-2core";
  ExpectError(
      plan, 2,
      {"--devices: machine cpu-2core has 2, found 4; run `colonnade calibrate --devices=4` to predict so many CPU devices",
       "titan-2013"});
  ExpectError(absl::StrCat(plan, " --json --save-plan=", In("p.json")), 2, {"--devices: machine cpu-2core has 2"});
  const Result r = Run(absl::StrCat(plan, " --save-plan=", In("p.json"), " --drawing=", In("p.txt")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("note: no prediction; --devices: machine cpu-2core has 2"));
  EXPECT_THAT(r.out, HasSubstr("conv3"));
  EXPECT_EQ(r.out.find("predicted"), std::string::npos);
  EXPECT_TRUE(partition::PlanFromJson(*engine::ReadFile(In("p.json"))).ok());
  EXPECT_THAT(*engine::ReadFile(In("p.txt")), HasSubstr("conv3"));
}

TEST_F(Command, AProfileThatWasFittedToAnotherNetworkWarns) {
  for (const char* sub : {"plan", "simulate"}) {
    const Result other = Run(absl::StrCat(sub, " --model=lenet --plan=data --devices=2 --machine=titan-2013"));
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_THAT(other.err,
                HasSubstr("warning: machine titan-2013: its overhead of 0.297 s a step was fitted to alexnet2012; "
                          "times predicted for lenet are wrong"));
  }
  EXPECT_THAT(Run("table --model=lenet").err, HasSubstr("fitted to alexnet2012"));
  const Result own = Run(absl::StrCat("simulate --plan=hybrid ", kTitan));
  EXPECT_EQ(own.err.find("fitted to"), std::string::npos) << own.err;
}

TEST_F(Command, APlanThatDoesNotFitIsRefusedWithATableAndThePlanThatFits) {
  const Result r = Run("plan --model=alexnet2012 --batch=1536 --plan=single --machine=titan-2013");
  EXPECT_EQ(r.code, 12);
  for (const char* part :
       {"does not fit", "weights", "gradients", "optimiser", "activations", "the nearest plan that fits"}) {
    EXPECT_THAT(r.err, HasSubstr(part));
  }
  EXPECT_EQ(r.out, "");
  const Result cut = Run("plan --model=vgg16 --devices=4 --batch=256 --plan=hybrid --columns=4 --machine=titan-2013");
  EXPECT_EQ(cut.code, 12);
  EXPECT_THAT(cut.err, HasSubstr("shows it, without --columns"));
}

// A byte less than `data` takes with layouts, without which it would be the nearest.
TEST_F(Command, ThePlanThatFitsOnCpuDevicesFitsWithItsLayouts) {
  const std::string line = "simulate --model=lenet --batch=256 --draws=0 --json --machine=";
  const json data = json::parse(Run(absl::StrCat(line, "cpu-2core --plan=data --devices=2")).out)["predicted"];
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/cpu-2core.json")));
  profile["memory_bytes"]["value"] = data["per_device"][0]["peak_memory_bytes"].get<int64_t>() - 1;
  Write("small.json", profile.dump());
  const Result r = Run(absl::StrCat(line, In("small.json"), " --plan=single"));
  EXPECT_EQ(r.code, 12);
  std::smatch offered;
  ASSERT_TRUE(std::regex_search(r.err, offered, std::regex(" --plan=[a-z]+ --devices=2( --reduction=sharded)?"))) << r.err;
  const Result again = Run(absl::StrCat(line, In("small.json"), offered.str()));
  EXPECT_EQ(again.code, 0) << offered.str() << again.err;
}

// Dense buffers alone would just fit.
TEST_F(Command, APlanWhoseLayoutsAndWorkspacesDoNotFitIsRefused) {
  ExpectError("simulate --model=alexnet --batch=5282 --machine=cpu-2core --draws=0", 12,
              {"does not fit: device 0 of machine cpu-2core has 12640 MB", "with layouts and workspaces"});
}

TEST_F(Command, FlagsThatSetSomethingOfPlansHoldForAllThatASearchJudges) {
  const Result r =
      Run(absl::StrCat("plan --plan=auto --draws=0 --json ", kTitan,
                       " --reduction=master --overlap=off --bucket-bytes=1000000 --piece-bytes=500000 --transfer-parts=2"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json plan = json::parse(r.out);
  for (const json& candidate : plan["candidates"]) {
    EXPECT_EQ(candidate["reduction"], "master");
    EXPECT_EQ(candidate["overlap"], false);
    EXPECT_EQ(candidate["bucket_bytes"], 1'000'000);
    EXPECT_EQ(candidate["transfer_parts"], 2);
  }
  EXPECT_NEAR(plan["predicted"]["step_ms"], plan["candidates"][0]["step_ms"], 1e-3);
}

// The words of a row of the ranking between its rank and its step: plan, mesh, reduction, overlap, buckets and parts.
std::string ChoicesInRow(absl::string_view row) {
  std::vector<std::string> words = absl::StrSplit(row, ' ', absl::SkipEmpty());
  return absl::StrJoin(absl::MakeSpan(words).subspan(1, 8), " ");
}

TEST_F(Command, TheRankingShowsEachChoiceOnceAndHowManyMoreThereAre) {
  const Result r = Run(absl::StrCat("plan --plan=auto --draws=0 ", kTitan)),
               of_all = Run(absl::StrCat("plan --plan=auto --draws=0 --json ", kTitan));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> parts = absl::StrSplit(r.out, "\nrank ");
  ASSERT_EQ(parts.size(), 2u) << r.out;
  std::vector<std::string> rows = absl::StrSplit(parts[1], '\n', absl::SkipEmpty());
  rows.erase(rows.begin());  // the rest of the header
  ASSERT_GE(rows.size(), 10u);
  std::set<std::string> choices;
  for (const std::string& row : rows) EXPECT_TRUE(choices.insert(ChoicesInRow(row)).second) << row;
  const auto is_of_second_row = [](const json& c) {  // auto 2 x 2, all-reduce
    return c["plan"] == "auto" && c["mesh"] == json({{"replicas", 2}, {"columns", 2}}) && c["reduction"] == "all-reduce" &&
           c["overlap"] == true && c["bucket_bytes"] == (int64_t{8} << 20) && c["transfer_parts"] == 1;
  };
  ASSERT_EQ(ChoicesInRow(rows[1]), "auto 2 x 2 all-reduce on 8.4 1");
  const json candidates = json::parse(of_all.out)["candidates"];
  const auto alike = std::count_if(candidates.begin(), candidates.end(), is_of_second_row);
  EXPECT_GT(alike, 1);
  EXPECT_THAT(rows[1], ::testing::EndsWith(absl::StrCat(" +", alike - 1)));
}

TEST_F(Command, ARateOfTheInputIsANumber) {
  for (const char* rate : {"nan", "-1", "x"}) {
    ExpectError(absl::StrCat("simulate --model=lenet --machine=titan-2013 --draws=0 --input-rate=", rate), 2,
                {"--input-rate"});
  }
}

TEST_F(Command, APlanFileOfAnyNameIsSavedAnew) {
  const std::string file = In("p\xff.json");
  ASSERT_EQ(Run(absl::StrCat("plan --model=lenet --devices=2 --machine=titan-2013 --draws=0 --save-plan=", file)).code, 0);
  json plan = json::parse(*engine::ReadFile(file));
  plan["name"] = "";
  ASSERT_TRUE(engine::ReplaceFile(file, plan.dump()).ok());
  const Result r = Run(
      absl::StrCat("plan --model=lenet --machine=titan-2013 --draws=0 --plan=", file, " --save-plan=", In("again.json")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(partition::PlanFromJson(*engine::ReadFile(In("again.json"))).ok());
}

// The draws of a profile are fitted anew to the step that it was fitted to, which one that was edited no longer gives.
TEST_F(Command, AProfileThatNoLongerGivesItsStepHasAnIntervalOfItsOwn) {
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json")));
  profile["step_sec"]["value"] = 0;
  Write("edited.json", profile.dump());
  const auto plan = [&](const std::string& machine) {
    return Run(absl::StrCat("plan --model=alexnet2012 --batch=128 --draws=20 --json --machine=", machine));
  };
  constexpr char kWarning[] = "the profile no longer gives that step";
  const Result shipped = plan("titan-2013"), edited = plan(In("edited.json"));
  EXPECT_THAT(shipped.err, testing::Not(HasSubstr(kWarning)));
  EXPECT_THAT(edited.err, HasSubstr(kWarning));
  for (const Result& r : {shipped, edited}) {
    const json predicted = json::parse(r.out)["predicted"];
    EXPECT_LT(predicted["step_ms_low"], predicted["step_ms"]);
    EXPECT_GT(predicted["step_ms_high"], predicted["step_ms"]);
  }
}

// 60 thousand million parameters, of which what verify compares is in double.
TEST_F(Command, ANetworkWhoseStatesAreTooLargeToBeComparedIsRefusedBeforeItIsLoaded) {
  ExpectError("verify --model=alexnet2012 --width=32 --plan=model --devices=2 --batch=2 --steps=1 --backend=cpu", 12,
              {"needs at least ", "copies of the state in double"});
}

TEST_F(Command, ABatchThatIsTooLargeForThisMachineIsRefusedBeforeItIsLoaded) {
  for (const char* sub : {"train", "verify --plan=model --devices=2"}) {
    ExpectError(absl::StrCat(sub, " --model=alexnet2012 --backend=cpu --batch=1048576 --steps=1"), 12,
                {"--batch: 1048576 needs at least ", " GB are free; a batch of ", " would fit"});
  }
}

// Of training and of the test; 227 pixels a side.
TEST_F(Command, BatchesThatAreReadAheadCountAsMemory) {
  const auto gigabytes = [&](int prefetch) {
    const Result r =
        Run(absl::StrCat("train --model=alexnet2012 --backend=cpu --batch=1048576 --steps=1 --prefetch=", prefetch));
    EXPECT_EQ(r.code, 12) << r.err;
    const std::string before = "needs at least ";
    return std::stod(r.err.substr(r.err.find(before) + before.size()));
  };
  EXPECT_NEAR(gigabytes(64) - gigabytes(1), 2 * 63 * 1048576e-9 * 3 * 227 * 227, 1);
}

// The batch that would fit can be run: it divides over devices and micro-batches.
TEST_F(Command, TheBatchThatWouldFitDividesOverMicroBatchesToo) {
  const Result r =
      Run("train --model=alexnet2012 --backend=cpu --batch=1048572 --accumulate=3 --devices=2 --plan=data --steps=1");
  EXPECT_EQ(r.code, 12) << r.err;
  const std::string before = "a batch of ";
  const size_t at = r.err.find(before);
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_EQ(std::stoll(r.err.substr(at + before.size())) % 6, 0) << r.err;
}

// What cannot be counted is refused for what it is, wherever a plan and a batch meet; one sample fewer does not fit.
TEST_F(Command, ABatchThatCannotBeCountedIsRefusedByItsFlag) {
  const int64_t largest = partition::LargestBatch(*models::BuildModel("alexnet2012", {}));
  for (const char* command :
       {"train", "verify --devices=2", "program", "plan --plan=auto", "plan", "simulate", "bench step"}) {
    ExpectError(absl::StrCat(command, " --model=alexnet2012 --batch=", largest + 1), 2,
                {absl::StrCat("--batch: expected at most ", largest, " ("), absl::StrCat("found ", largest + 1),
                 "use a smaller batch"});
  }
  for (const char* command : {"train", "plan", "simulate"}) {
    EXPECT_EQ(Run(absl::StrCat(command, " --model=alexnet2012 --batch=", largest)).code, 12) << command;
  }
  ExpectError("train --model=alexnet2012 --batch=1073741824 --accumulate=1024", 2, {"--batch: expected at most "});
}

TEST_F(Command, ANetworkThatIsTooWideIsNotBlamedOnItsImages) {
  const Result wide = Run("train --model=alexnet --width=64");
  EXPECT_EQ(wide.code, 2);
  EXPECT_THAT(wide.err, HasSubstr("\"classifier.1\": expected at most 68719476736 elements"));
  EXPECT_THAT(wide.err, HasSubstr("; use another --width\n"));
}

// A copy that was edited has the name of what it is a copy of.
TEST_F(Command, AProfileOfAFileIsNamedWithTheFile) {
  const absl::StatusOr<std::string> titan = engine::ReadFile(std::string(kSourceDir) + "/bench/machines/titan-2013.json");
  Write("copy.json", *titan);
  const std::string title = "titan-2013 (" + In("copy.json") + ")";
  for (const char* command : {"plan", "simulate"}) {
    const std::string line = absl::StrCat(command, " --model=alexnet2012 --batch=256 --draws=0 --machine=");
    EXPECT_THAT(Run(line + In("copy.json")).out, HasSubstr("predicted on " + title + ": "));
    EXPECT_THAT(Run(line + "titan-2013").out, HasSubstr("predicted on titan-2013: "));
    EXPECT_EQ(json::parse(Run(line + In("copy.json") + " --json").out)["machine_file"], In("copy.json"));
    EXPECT_EQ(json::parse(Run(line + "titan-2013 --json").out)["machine_file"], nullptr);
  }
  EXPECT_THAT(Run("table --draws=0 --machine=" + In("copy.json")).out, HasSubstr("on " + title + ", batch 256"));
  ExpectError("plan --model=alexnet2012 --devices=8 --batch=256 --plan=data --machine=" + In("copy.json"), 2, {title});
}

TEST_F(Command, SimulateWritesATimeline) {
  const Result r = Run(absl::StrCat("simulate --plan=model --devices=2 --json --trace=", In("t.json"),
                                    " --model=alexnet2012 --batch=256 --machine=titan-2013"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GT(json::parse(r.out)["predicted"]["step_ms"], 0);
  EXPECT_TRUE(json::parse(*engine::ReadFile(In("t.json"))).contains("traceEvents"));
}

TEST_F(Command, PlanAndSimulateSayWhatANamedPlanReplicates) {
  for (const char* command : {"plan", "simulate", "simulate --json"}) {
    const Result r =
        Run(absl::StrCat(command, " --model=lenet --batch=36 --devices=3 --plan=model --draws=0 --machine=dgx1-v100"));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("note: layer \"conv3\" on axis \"model\"")) << command;
    EXPECT_THAT(r.err, HasSubstr("note: layer \"fc7\" on axis \"model\"")) << command;
  }
}

// A timeline shows all devices, some of which hold less than those that stand for them.
TEST_F(Command, WhatIsPredictedIsTheSameBesideATimeline) {
  const std::string line = "simulate --plan=owt --devices=2 --draws=0 --json --model=alexnet --machine=titan-2013";
  const Result r = Run(line), beside = Run(absl::StrCat(line, " --trace=", In("t.json"), " --report=", In("r.html")));
  ASSERT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(json::parse(r.out)["predicted"], json::parse(beside.out)["predicted"]);
}

TEST_F(Command, TablePrintsThePapersRowsAndWritesPlots) {
  const Result r = Run(absl::StrCat("table --json --curve-steps=20 --plots=", In("paper")));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  ASSERT_EQ(j["rows"].size(), 7u);
  for (const char* key : {"configuration", "devices", "plan", "published_days", "simulated_days", "simulated_error",
                          "speedup_published", "speedup_simulated", "measured_step_ms", "speedup_measured", "note"}) {
    EXPECT_TRUE(j["rows"][0].contains(key)) << key;
  }
  EXPECT_TRUE(j["rows"][1]["measured_step_ms"].is_null());
  EXPECT_NE(j["rows"][1]["note"], "");
  for (const char* part : {">ideal<", ">paper<", ">2 GPUs<", ">devices and parallelism<"}) {
    EXPECT_THAT(*engine::ReadFile(In("paper-speedup.svg")), HasSubstr(part));
  }
  // What was trained is named, and no axis has days of another network.
  const std::string errors = *engine::ReadFile(In("paper-error-against-time.svg"));
  for (const char* part : {"two_column on the digits", ">epochs<", ">time of training, s<", ">test error, %<"}) {
    EXPECT_THAT(errors, HasSubstr(part));
  }
  EXPECT_EQ(errors.find("days"), std::string::npos);
}

TEST_F(Command, ADrawingIsNoOtherFormatThanSvg) {
  const std::string plan = "plan --model=two_column --plan=data --devices=2 --machine=dgx1-v100 --draws=0 --drawing=";
  ExpectError(absl::StrCat(plan, In("x.PNG")), 2, {"--drawing: expected the name of an SVG file", "x.PNG"});
  ExpectError("train --model=two_column --data=digits --steps=1 --curves=" + In("c.pdf"), 2, {"--curves", "SVG", "c.pdf"});
  EXPECT_EQ(Run(absl::StrCat(plan, In("x.svg"))).code, 0);
  EXPECT_EQ(Run(absl::StrCat(plan, In("x.txt"))).code, 0);
}

TEST_F(Command, MachinesThatAreNotGoodAreRefused) {
  const std::string command = "plan --model=lenet --plan=data --devices=2 ";
  const Result unknown = Run(command + "--machine=titan-2014");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"titan-2013\"?"));
  EXPECT_EQ(Run(command + "--machine=" + In("none.json")).code, 66);
  ASSERT_TRUE(engine::ReplaceFile(In("bad.json"), "{\"colonnade_machine\": 1}").ok());
  const Result bad = Run(command + "--machine=" + In("bad.json"));
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("bad.json: name: missing"));
  const Result many = Run("plan --model=lenet --plan=data --devices=8 --machine=titan-2013");
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("has 4"));
}

// Lines of docs/which_plan.md as "| network, batch | machine, devices | milliseconds of the named plans … | … |".
TEST_F(Command, TheTableOfPlansInTheDocumentationIsWhatIsPredicted) {
  const std::string page = *engine::ReadFile(absl::StrCat(kSourceDir, "/docs/which_plan.md"));
  const std::vector<std::string> names = {"single", "data", "model", "hybrid", "owt"};
  int rows = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
    std::vector<std::string> cells = absl::StrSplit(absl::StrReplaceAll(line, {{"**", ""}}), " | ");
    if (cells.size() != 8 || !absl::StrContains(cells[1], "-")) continue;
    const std::pair<std::string, std::string> network = absl::StrSplit(cells[0].substr(2), ", "),
                                              machine = absl::StrSplit(cells[1], ", ");
    for (size_t n = 0; n < names.size(); ++n) {
      const Result r = Run(absl::StrCat("simulate --draws=0 --json --model=", network.first, " --batch=", network.second,
                                        " --machine=", machine.first, " --plan=", names[n],
                                        " --devices=", n == 0 ? "1" : machine.second));
      const bool fits = cells[2 + n] != "does not fit";
      ASSERT_EQ(r.code, fits ? 0 : 12) << line << r.err;
      if (!fits) continue;
      const double predicted = json::parse(r.out)["predicted"]["step_ms"];
      EXPECT_NEAR(predicted, std::stod(cells[2 + n]), 0.0151) << names[n] << " of " << line;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST_F(Command, APredictionIsOfTheUpdateThatIsAskedFor) {
  const auto simulated = [this](const char* update) {
    const Result r =
        Run(absl::StrCat("simulate --json --draws=0 --model=two_column --devices=2 --machine=cpu-2core ", update));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out);
  };
  const auto memory = [&](const char* update) {
    return simulated(update)["predicted"]["per_device"][0]["peak_memory_bytes"].get<int64_t>();
  };
  const int64_t usual = memory("");
  EXPECT_GT(memory("--optimizer=adamw"), usual) << "second moments";
  EXPECT_GT(memory("--ema=0.9"), usual);
  EXPECT_LT(memory("--accumulate=4"), usual) << "activations of a quarter of the batch";
  EXPECT_LT(memory("--freeze=conv1"), usual) << "no momentum";
  const json plan = simulated("--plan=data --reduction=sharded");
  EXPECT_EQ(plan["devices"], 2);
  EXPECT_EQ(plan["mesh"]["replicas"], 2);
  EXPECT_EQ(plan["reduction"], "sharded");
}

}  // namespace
}  // namespace colonnade::cli
