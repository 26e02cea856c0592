// The table of rows: the paper's or one's own, fitted or not, with intervals; what is refused, and with which message.
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kRows[] = R"({"colonnade_rows": 1, "title": "two machines", "model": "lenet", "batch": 32, "scaling": "weak",
 "rows": [{"name": "one", "devices": 1, "plan": "single", "step_ms": 5},
          {"name": "two", "devices": 2, "plan": "data", "images_per_sec": 10000},
          {"name": "open", "devices": 2, "plan": "model"}]})";

class Table : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    ASSERT_TRUE(engine::ReplaceFile(In("rows.json"), kRows).ok());
  }
  json Printed(const std::string& arguments) const {
    const Result r = Run(absl::StrCat("table --json ", arguments));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? json::parse(r.out) : json();
  }
  // A profile of one device; rates as JSON has them.
  void WriteOneDevice(const std::string& file, const std::string& flops_per_sec,
                      const std::string& memory_bytes_per_sec) const {
    Write(file, absl::StrFormat(R"({"colonnade_machine": 1, "name": "one", "devices": ["gpu0"], "collectives": "ring",
      "memory_bytes": {"value": 1e10, "from": "guess"}, "flops_per_sec": {"value": %s, "from": "guess"},
      "memory_bytes_per_sec": {"value": %s, "from": "guess"},
      "links": [{"a": "gpu0", "b": "host", "bytes_per_sec": {"value": 1e9, "from": "guess"}}]})",
                                flops_per_sec, memory_bytes_per_sec));
  }
  // Lenet on one device, row "1".
  void WriteOneRow(const std::string& file, const std::string& step_ms) const {
    Write(file, absl::StrFormat(R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 32,
      "rows": [{"name": "1", "devices": 1, "plan": "single", "step_ms": %s}]})",
                                step_ms));
  }
  std::string Rows() const { return absl::StrCat("--machine=dgx1-v100 --rows=", In("rows.json")); }
};

TEST_F(Table, PaperRowsHaveIntervalsThatHoldThem) {
  const json j = Printed("");
  EXPECT_EQ(j["draws"], 100);
  EXPECT_GT(j["order_holds"], 0.3);
  EXPECT_LT(j["order_holds"], 1);
  const json& fitted = j["rows"][0];
  EXPECT_NEAR(fitted["simulated_step_ms_low"].get<double>(), fitted["simulated_step_ms_high"].get<double>(), 1e-3)
      << "it is fitted anew in each draw";
  for (int r : {1, 2, 3, 4}) {
    const json& row = j["rows"][r];
    const double low = row["simulated_step_ms_low"], high = row["simulated_step_ms_high"];
    EXPECT_GT(high, 1.05 * low) << row;
    for (const char* inside : {"simulated_step_ms", "published_step_ms"}) {
      EXPECT_GT(row[inside], low) << row;
      EXPECT_LT(row[inside], high) << row;
    }
  }
  EXPECT_EQ(j, Printed("")) << "draws are a function of the seed";
  EXPECT_NE(j["rows"][1], Printed("--seed=2")["rows"][1]);
}

TEST_F(Table, NoDrawsGiveNoIntervals) {
  const json j = Printed("--draws=0");
  EXPECT_EQ(j["draws"], 0);
  EXPECT_TRUE(j["order_holds"].is_null());
  EXPECT_TRUE(j["rows"][1]["simulated_step_ms_low"].is_null());
}

TEST_F(Table, OwnRowsAreComparedInTheirOwnUnits) {
  const json j = Printed(Rows());
  ASSERT_EQ(j["rows"].size(), 3u);
  EXPECT_EQ(j["rows"][1]["global_batch"], 64) << "32 on each";
  EXPECT_DOUBLE_EQ(j["rows"][1]["published_step_ms"], 6.4);
  EXPECT_NEAR(j["rows"][1]["speedup_published"].get<double>(), 10000 / (32 / 0.005), 1e-9) << "images a second";
  EXPECT_TRUE(j["rows"][2]["published_step_ms"].is_null());
  EXPECT_TRUE(j["rows"][0]["simulated_days"].is_null());
  EXPECT_THAT(Run(absl::StrCat("table ", Rows())).out, HasSubstr("two machines, on dgx1-v100; milliseconds a step"));
}

TEST_F(Table, AFitMakesItsRowComeOutAndIsKept) {
  const Result r = Run(absl::StrCat("table --json --fit=one --out=", In("fitted.json"), " ", Rows()));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, ContainsRegex("fitted to row one: kernels take [0-9.]+ times as long\n"));
  const json row = json::parse(r.out)["rows"][0];
  EXPECT_NEAR(row["simulated_error"].get<double>(), 0, 1e-6);
  EXPECT_EQ(row["note"], "the profile was fitted to it; not measured: only --machine=local is");
  const json profile = json::parse(*engine::ReadFile(In("fitted.json")));
  EXPECT_EQ(profile["fitted_to"], json({{"model", "lenet"}, {"batch", 32}, {"step_sec", 0.005}}));
  const Result simulated = Run(absl::StrCat("simulate --json --model=lenet --batch=32 --machine=", In("fitted.json")));
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const json predicted = json::parse(simulated.out)["predicted"];
  EXPECT_NEAR(predicted["step_ms"].get<double>(), 5, 1e-3);
  EXPECT_LT(predicted["step_ms_high"].get<double>() - predicted["step_ms_low"].get<double>(), 0.2)
      << "each draw is refitted";
}

// A fit is to the step without the input, as steps are measured.
TEST_F(Table, AFittedRowThatDoesNotComeOutShowsItsError) {
  EXPECT_THAT(Run(absl::StrCat("table --draws=0 --fit=one ", Rows())).out, ContainsRegex("one +5.00 ms +5.00 ms +fitted "));
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/dgx1-v100.json")));
  profile["input_images_per_sec"] = {{"value", 3200}, {"from", "guess"}};
  Write("fed.json", profile.dump());
  EXPECT_THAT(Run(absl::StrCat("table --draws=0 --fit=one --machine=", In("fed.json"), " --rows=", In("rows.json"))).out,
              ContainsRegex("one +5.00 ms +10.00 ms +[+]100.0 % "));
}

// Lenet is fastest on one device until kernels are so slow that it pays to share them.
TEST_F(Table, RowsOfThePlannerAreItsChoiceOnTheFittedProfile) {
  Write("auto.json", R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 32,
      "rows": [{"name": "one", "devices": 1, "plan": "single", "step_ms": 10},
               {"name": "chosen", "devices": 4, "plan": "auto"}, {"name": "data", "devices": 4, "plan": "data"}]})");
  const std::string rows = absl::StrCat("--draws=0 --rows=", In("auto.json"));
  const json fitted = Printed(absl::StrCat(rows, " --fit=one --machine=dgx1-v100 --out=", In("fitted.json")))["rows"];
  EXPECT_LE(fitted[1]["simulated_step_ms"], fitted[2]["simulated_step_ms"]);
  const json again = Printed(absl::StrCat(rows, " --machine=", In("fitted.json")))["rows"];
  EXPECT_DOUBLE_EQ(fitted[1]["simulated_step_ms"].get<double>(), again[1]["simulated_step_ms"].get<double>());
}

TEST_F(Table, AProfileThatNoCommandReadsIsNotWritten) {
  WriteOneDevice("slow.json", /*flops_per_sec=*/"2e6", /*memory_bytes_per_sec=*/"1e9");
  WriteOneRow("one.json", /*step_ms=*/"2e7");
  const std::string table =
      absl::StrCat("table --draws=0 --fit=1 --machine=", In("slow.json"), " --rows=", In("one.json"), " --out=");
  Write("kept.json", *engine::ReadFile(In("slow.json")));
  ExpectError(
      table + In("kept.json"), 2,
      {"--out: the fit makes a profile that no machine has: flops_per_sec.value: expected", "is a unit wrong in the "});
  EXPECT_EQ(*engine::ReadFile(In("kept.json")), *engine::ReadFile(In("slow.json")));
}

// An op that takes no time to measure has the largest rate; a fit that makes it faster yet writes that.
TEST_F(Table, AFitKeepsRatesWithinWhatAProfileMayState) {
  WriteOneDevice("fast.json", /*flops_per_sec=*/"1e9", /*memory_bytes_per_sec=*/"9e14");
  WriteOneRow("one.json", /*step_ms=*/"5");
  const json row = Printed(absl::StrCat("--draws=0 --fit=1 --machine=", In("fast.json"), " --rows=", In("one.json"),
                                        " --out=", In("fitted.json")))["rows"][0];
  EXPECT_NEAR(row["simulated_error"].get<double>(), 0, 1e-6);
  EXPECT_EQ(Run(absl::StrCat("simulate --model=lenet --batch=32 --machine=", In("fitted.json"))).code, 0);
}

TEST_F(Table, AFitThatNoMachineCouldHaveIsDoubted) {
  constexpr char kDoubt[] = "is a link too slow, or a unit wrong?";
  ASSERT_TRUE(engine::ReplaceFile(In("fast.json"), R"({"colonnade_rows": 1, "title": "t", "model": "resnet18", "batch": 64,
      "rows": [{"name": "one", "devices": 1, "plan": "single", "step_ms": 20}]})")
                  .ok());
  const std::string table = "table --draws=0 --machine=dgx1-v100 --fit=one --rows=";
  EXPECT_THAT(Run(absl::StrCat(table, In("fast.json"))).err, HasSubstr(kDoubt));
  EXPECT_THAT(Run(absl::StrCat(table, In("rows.json"))).err, Not(HasSubstr(kDoubt)));
}

TEST_F(Table, AFitThatChangesNothingIsNotSaid) {
  EXPECT_THAT(Run("table --draws=0").err, Not(HasSubstr("fitted to row"))) << "the profile was fitted to it already";
  EXPECT_THAT(Run("table --draws=0 --fit=1,2-model").err,
              ContainsRegex("fitted to row 1 and row 2-model: step_sec [0-9.]+ s, was 0.2971; kernels take"));
}

TEST_F(Table, AFitToTwoRowsGivesBoth) {
  const json two = Printed("--draws=0 --fit=1,2-model");
  EXPECT_NEAR(two["rows"][0]["simulated_error"].get<double>(), 0, 1e-6);
  EXPECT_NEAR(two["rows"][1]["simulated_error"].get<double>(), 0, 1e-6);
}

// Two digits behind the point say little of a run of an hour if it is given in days.
TEST_F(Table, TheUnitIsTheLargestOfWhichTheFastestRowTakesOne) {
  const std::vector<std::pair<std::string, std::string>> titles = {{"--machine=titan-2013", "days"},
                                                                   {"--machine=dgx1-v100 --model=alexnet", "hours"},
                                                                   {"--machine=hgx-h100 --model=two_column", "minutes"}};
  for (const auto& [flags, unit] : titles) {
    const Result r = Run("table --draws=0 " + flags);
    EXPECT_THAT(r.out, HasSubstr("; " + unit + " for 100 passes over 1281167 images")) << flags;
    const std::string shown = absl::StrCat(" ", unit == "minutes" ? "min" : unit.substr(0, 1), " ");
    const double per_day = unit == "days" ? 1 : unit == "hours" ? 24 : 24 * 60;
    double least = 1e9;
    const json printed = Printed("--draws=0 " + flags);
    ASSERT_FALSE(printed["rows"].empty());
    for (const json& row : printed["rows"]) {
      const double time = row["simulated_days"].get<double>() * per_day;
      EXPECT_THAT(r.out, HasSubstr(absl::StrFormat(" %.2f%s", time, shown))) << flags;
      least = std::min(least, time);
    }
    EXPECT_GE(least, 1) << flags;
  }
}

TEST_F(Table, ThePapersTimesAreOfItsOwnNetworkBatchAndMachine) {
  EXPECT_DOUBLE_EQ(Printed("--draws=0")["rows"][0]["published_days"], 10.5);
  for (const char* other : {"--model=lenet", "--batch=128", "--machine=dgx1-v100"}) {
    EXPECT_TRUE(Printed(absl::StrCat("--draws=0 ", other))["rows"][0]["published_days"].is_null()) << other;
  }
}

TEST_F(Table, WhatCannotBeFittedOrComparedIsRefused) {
  ExpectError(absl::StrCat("table --fit=open ", Rows()), 2,
              {"--fit: expected a row that states a time, one of one, two; found \"open\""});
  ExpectError(absl::StrCat("table --fit=one,one ", Rows()), 2, {"--fit: expected another row that states a time"});
  ExpectError(absl::StrCat("table --fit=one,two ", Rows()), 2, {"--fit: expected one row on machine dgx1-v100"});
  ExpectError(absl::StrCat("table --model=lenet ", Rows()), 2, {"--model", "--rows"});
  ASSERT_TRUE(engine::ReplaceFile(In("slow.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 32,
      "rows": [{"name": "1", "devices": 1, "plan": "single", "step_ms": 1e8}]})")
                  .ok());
  ExpectError(absl::StrCat("table --machine=dgx1-v100 --fit=1 --rows=", In("slow.json")), 2,
              {"--fit: row 1 takes 1e+08 ms, but ", " even where kernels are 1000 times as slow", "is a unit wrong?"});
  ExpectError(absl::StrCat("table --machine=dgx1-v100 --out=", In("x.json")), 2, {"--out: expected --fit"});
  ASSERT_TRUE(engine::ReplaceFile(In("many.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 64,
      "rows": [{"name": "1", "devices": 64, "plan": "data", "step_ms": 1}]})")
                  .ok());
  ExpectError(absl::StrCat("table --machine=dgx1-v100 --out=", In("x.json"), " --rows=", In("many.json")), 2,
              {"--out: expected --fit"});  // before any row is looked at
  ExpectError("table --model=lenet --fit=2-data", 2, {"--fit: expected --machine=titan-2013"});
  ExpectError(absl::StrCat("table --rows=", In("none.json")), 66, {"none.json"});
  ASSERT_TRUE(engine::ReplaceFile(In("bad.json"), "{\"colonnade_rows\": 1,}").ok());
  ExpectError(absl::StrCat("table --rows=", In("bad.json")), 65, {"bad.json: expected JSON; line 1, column 22"});
  ASSERT_TRUE(engine::ReplaceFile(In("many.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 32,
      "rows": [{"name": "many", "devices": 64, "plan": "data"}]})")
                  .ok());
  ExpectError(absl::StrCat("table --machine=dgx1-v100 --rows=", In("many.json")), 65,
              {"many.json: row many: devices: machine", "has 8, found 64"});
  ASSERT_TRUE(engine::ReplaceFile(In("odd.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 33,
      "rows": [{"name": "odd", "devices": 2, "plan": "data"}]})")
                  .ok());
  ExpectError(absl::StrCat("table --machine=dgx1-v100 --rows=", In("odd.json")), 65, {"odd.json: row odd: ", "33"});
  EXPECT_FALSE(engine::ReadFile(In("x.json")).ok()) << "nothing is written";
}

TEST_F(Table, ItsReportLeavesTheMachineToTheRowsThatNameIt) {
  Write("own.json", absl::StrReplaceAll(kRows, {{"\"title\"", "\"machine\": \"dgx1-v100\", \"title\""}}));
  const Result r = Run(absl::StrCat("table --draws=0 --json --rows=", In("own.json"), " --report=", In("r.html")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["machine"], "dgx1-v100");
  EXPECT_THAT(*engine::ReadFile(In("r.html")), Not(HasSubstr("machine = &quot;titan-2013")));
}

TEST_F(Table, ARowThatIsFittedAndTooLargeSaysBoth) {
  Write("huge.json", R"({"colonnade_rows": 1, "title": "t", "model": "vgg16", "batch": 4096,
      "rows": [{"name": "1", "devices": 1, "plan": "single", "step_ms": 60000}]})");
  const json note =
      Printed(absl::StrCat("--draws=0 --machine=dgx1-v100 --fit=1 --rows=", In("huge.json")))["rows"][0]["note"];
  EXPECT_THAT(note.get<std::string>(), ContainsRegex("^the profile was fitted to it; not measured: .*; does not fit: "));
}

TEST_F(Table, DrawsAreFittedToWhatTheProfileStates) {
  ASSERT_TRUE(engine::ReplaceFile(In("paper.json"), R"({"colonnade_rows": 1, "title": "t", "machine": "titan-2013",
      "model": "alexnet2012", "batch": 256, "rows": [{"name": "1", "devices": 1, "plan": "single"}]})")
                  .ok());
  const json row = Printed(absl::StrCat("--rows=", In("paper.json")))["rows"][0];
  EXPECT_LT(row["simulated_step_ms_high"], 1.01 * row["simulated_step_ms_low"].get<double>())
      << "fitted_to holds one device's step";
}

TEST_F(Table, AProfileFittedToAnUnknownNetworkIsWarnedOf) {
  std::string profile = *engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json"));
  ASSERT_TRUE(engine::ReplaceFile(In("mine.json"),
                                  absl::StrReplaceAll(profile, {{"\"model\": \"alexnet2012\"", "\"model\": \"mine\""}}))
                  .ok());
  const Result r = Run(absl::StrCat("simulate --json --model=lenet --machine=", In("mine.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("draws are not fitted anew to fitted_to: unknown model \"mine\""));
}

TEST_F(Table, AProfileWhoseDrawsCannotBeFittedHasNoInterval) {
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json")));
  profile["fitted_to"]["step_sec"] = 1e-9;
  ASSERT_TRUE(engine::ReplaceFile(In("mine.json"), profile.dump()).ok());
  const Result r = Run(absl::StrCat("simulate --json --model=alexnet2012 --batch=256 --machine=", In("mine.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("there is no interval, since no draw can be fitted anew to fitted_to: "));
  EXPECT_EQ(json::parse(r.out)["predicted"]["draws"], 0);
}

TEST_F(Table, ARowThatThisMachineHasNoMemoryForIsNotMeasured) {
  Write("large.json", R"({"colonnade_rows": 1, "title": "t", "model": "alexnet2012", "batch": 1048576,
    "rows": [{"name": "1", "devices": 1, "plan": "single", "step_ms": 100}]})");
  const json row = Printed(absl::StrCat("--machine=local --rows=", In("large.json")))["rows"][0];
  EXPECT_EQ(row["measured_step_ms"], nullptr);
  EXPECT_THAT(row["note"].get<std::string>(),
              ContainsRegex("^not measured: batch: 1048576 needs at least .* a batch of [0-9]+ would fit; does not fit: "));
}

// Its links are slower in this draw than the whole measured step allows.
TEST_F(Table, IsPrintedThoughNoDrawCanBeFittedToItsRows) {
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json")));
  for (json& link : profile["links"]) link["bytes_per_sec"]["from"] = "guess";
  ASSERT_TRUE(engine::ReplaceFile(In("mine.json"), profile.dump()).ok());
  ASSERT_TRUE(engine::ReplaceFile(In("b.json"), R"({"colonnade_rows": 1, "title": "t", "model": "alexnet2012", "batch": 256,
      "rows": [{"name": "b", "devices": 4, "plan": "data", "step_ms": 433}]})")
                  .ok());
  const Result r =
      Run(absl::StrCat("table --json --fit=b --draws=1 --seed=3 --rows=", In("b.json"), " --machine=", In("mine.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("there is no interval, since no draw can be fitted anew to the rows of --fit: "));
  EXPECT_EQ(json::parse(r.out)["rows"].size(), 1u);
}

TEST_F(Table, AProfileOfWhichKernelsWereFittedSaysSo) {
  json profile = json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/titan-2013.json")));
  profile.erase("step_sec");
  ASSERT_TRUE(engine::ReplaceFile(In("mine.json"), profile.dump()).ok());
  const Result r = Run(absl::StrCat("simulate --draws=0 --model=lenet --machine=", In("mine.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("how long its kernels take was fitted to alexnet2012"));
}

TEST_F(Table, RowsThatAreLeftOutAreSaid) {
  const Result r = Run("table --batch=6 --draws=0");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("row 4-data is left out: "));
  const Result none = Run("table --model=resnt50 --draws=0");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, Not(HasSubstr("left out"))) << "one message for all rows";
}

TEST_F(Table, AMachineThatTheFileOfRowsNamesIsAFaultOfTheFile) {
  ASSERT_TRUE(engine::ReplaceFile(In("r.json"), R"({"colonnade_rows": 1, "title": "t", "machine": "nomach", "model": "lenet",
      "batch": 64, "rows": [{"name": "1", "devices": 1, "plan": "single"}]})")
                  .ok());
  ExpectError(absl::StrCat("table --rows=", In("r.json")), 65, {"r.json: machine: unknown machine \"nomach\""});
}

TEST_F(Table, PrintsNothingWhereItsPlotsCannotBeWritten) {
  const std::string table = absl::StrCat("table --json --draws=0 --plots=", In("p"), " ", Rows());
  const Result r = Wait(Start(table, [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};  // less than a plot, more than what is printed
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }));
  EXPECT_EQ(r.code, 74) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_THAT(r.err, HasSubstr("p-speedup.svg"));
}

TEST_F(Table, ANetworkOfAFileIsCalledByItsName) {
  Write("n.json", R"({"colonnade_model": 1, "name": "mine", "layers": [
      {"name": "images", "type": "Input", "sample_shape": [1, 8, 8]}, {"name": "flatten", "type": "Flatten"},
      {"name": "linear", "type": "FullyConnected", "out_features": 4}, {"name": "loss", "type": "SoftmaxCrossEntropy"}]})");
  const json j = Printed(absl::StrCat("--draws=0 --machine=dgx1-v100 --model=", In("n.json")));
  EXPECT_EQ(j["model"], "mine");
  EXPECT_EQ(j["rows"][0]["model"], "mine");
  EXPECT_THAT(Run(absl::StrCat("table --draws=0 --machine=dgx1-v100 --model=", In("n.json"))).out,
              StartsWith("mine on dgx1-v100, batch 256"));
  const Result missing = Run(absl::StrCat("table --model=", In("none.json")));
  EXPECT_EQ(missing.code, 66);
  EXPECT_THAT(missing.err, StartsWith("colonnade: cannot read ")) << "all rows are of it";
}

// An interval of 90 % is of twenty draws or more; short steps have digits, too.
TEST_F(Table, FewDrawsAndShortStepsAreShownAsPlanShowsThem) {
  const std::string report = absl::StrCat(" --report=", In("r.html"), " ", Rows());
  for (const auto& [draws, title, legend] : std::vector<std::tuple<int, std::string, std::string>>{
           {1, "of 1 draw ", "with 1 draw (too few for an interval of 90 %)"},
           {3, "of 3 draws", "with 3 draws (too few for an interval of 90 %)"},
           {20, "90 % of draws", "with 90 % of 20 draws"}}) {
    const Result r = Run(absl::StrCat("table --draws=", draws, report));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr(title));
    const std::string page = *engine::ReadFile(In("r.html"));
    EXPECT_THAT(page, HasSubstr(legend));
    EXPECT_THAT(page, HasSubstr(absl::StrCat(">", absl::StripAsciiWhitespace(title), "<")));
    ASSERT_EQ(
        Run(absl::StrCat("simulate --model=lenet --machine=dgx1-v100 --draws=", draws, " --report=", In("s.html"))).code, 0);
    EXPECT_THAT(*engine::ReadFile(In("s.html")), HasSubstr(legend.substr(5)));
  }
  Write("short.json", R"({"colonnade_rows": 1, "title": "t", "model": "two_column", "batch": 1,
      "rows": [{"name": "1", "devices": 1, "plan": "single"}]})");
  EXPECT_THAT(RunHere(absl::StrCat("table --draws=0 --machine=local --rows=", In("short.json"))).out,
              ContainsRegex(" x +[0-9]+[.][0-9]+ ms\n"));
  EXPECT_THAT(Run("simulate --model=lenet --machine=dgx1-v100 --draws=0 --input-rate=0.5").out, HasSubstr(", 0.5 images/s"));
}

TEST_F(Table, ARowThatDoesNotFitSaysSo) {
  ASSERT_TRUE(engine::ReplaceFile(In("large.json"), R"({"colonnade_rows": 1, "title": "t", "model": "vgg16", "batch": 65536,
      "rows": [{"name": "large", "devices": 1, "plan": "single"},
               {"name": "small", "devices": 1, "plan": "single", "batch": 64}]})")
                  .ok());
  const std::string rows = absl::StrCat("table --draws=0 --machine=hgx-h100 --json --rows=", In("large.json"));
  const Result r = Run(rows);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("row large does not fit: a device needs "));
  EXPECT_THAT(r.err, Not(HasSubstr("row small")));
  EXPECT_THAT(r.out, HasSubstr("does not fit: a device needs "));
}

TEST_F(Table, NoFileOfOneRunIsWrittenOverAnother) {
  ExpectError(absl::StrCat("table --draws=0 --plots=", In("y"), " --report=", In("y-error-against-time.svg")), 2,
              {"--report", "--plots"});
}

// Timelines are of whole Programs, not of the devices that stand for all.
TEST_F(Table, TimelinesOfItsReportShowEveryDevice) {
  ASSERT_TRUE(engine::ReplaceFile(In("four.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 32,
      "rows": [{"name": "four", "devices": 4, "plan": "data"}]})")
                  .ok());
  ASSERT_EQ(
      Run(absl::StrCat("table --draws=0 --machine=hgx-h100 --rows=", In("four.json"), " --report=", In("r.html"))).code, 0);
  const std::string page = *engine::ReadFile(In("r.html"));
  const size_t begin = page.find("Two steps, simulated"), end = page.find(">Plans<", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string timelines = page.substr(begin, end - begin);
  for (int device : {0, 1, 2, 3}) EXPECT_THAT(timelines, HasSubstr(absl::StrCat(">device ", device))) << device;
}

TEST_F(Table, ErrorBarsStandInThePlot) {
  ASSERT_EQ(Run(absl::StrCat("table --plots=", In("with"), " ", Rows())).code, 0);
  ASSERT_EQ(Run(absl::StrCat("table --draws=0 --plots=", In("without"), " ", Rows())).code, 0);
  constexpr char kErrorBar[] = "stroke-width=\"1.3\"";
  EXPECT_THAT(*engine::ReadFile(In("with-speedup.svg")), HasSubstr(kErrorBar));
  EXPECT_THAT(*engine::ReadFile(In("without-speedup.svg")), ::testing::Not(HasSubstr(kErrorBar)));
}

// On a machine whose links to the host are slow, what images weigh shows.
TEST_F(Table, SimulatesTheStepsOfSimulate) {
  ASSERT_TRUE(engine::ReplaceFile(In("slow.json"), R"({"colonnade_machine": 1, "name": "slow", "devices": ["gpu0"],
      "memory_bytes": {"value": 1e10, "from": "guess"}, "flops_per_sec": {"value": 1e14, "from": "guess"},
      "memory_bytes_per_sec": {"value": 1e12, "from": "guess"}, "collectives": "ring",
      "links": [{"a": "gpu0", "b": "host", "bytes_per_sec": {"value": 1e8, "from": "guess"}}]})")
                  .ok());
  ASSERT_TRUE(engine::ReplaceFile(In("one.json"), R"({"colonnade_rows": 1, "title": "t", "model": "lenet", "batch": 64,
      "rows": [{"name": "1", "devices": 1, "plan": "single"}]})")
                  .ok());
  const std::string machine = absl::StrCat(" --draws=0 --machine=", In("slow.json"));
  const json row = Printed(absl::StrCat("--rows=", In("one.json"), machine))["rows"][0];
  const Result r = Run(absl::StrCat("simulate --json --model=lenet --batch=64", machine));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NEAR(row["simulated_step_ms"].get<double>(), json::parse(r.out)["predicted"]["step_ms"].get<double>(), 1e-9);
}

TEST_F(Table, PlanSaysHowOftenEachNamedPlanIsSlower) {
  const Result r = Run("plan --json --model=alexnet2012 --batch=256 --devices=4 --plan=auto --machine=titan-2013");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["predicted"]["draws"], 100);
  int compared = 0;
  for (const json& candidate : j["candidates"]) {
    if (!candidate.contains("slower_than_plan")) continue;
    ++compared;
    if (candidate["plan"] == "single") {
      EXPECT_EQ(candidate["slower_than_plan"], 1);
    }
    EXPECT_LE(candidate["step_ms_low"], candidate["step_ms_high"]);
  }
  EXPECT_GE(compared, 5) << "every named plan, the choice aside where nothing else has its name";
  EXPECT_GT(j["predicted"]["step_ms"], j["least_step_ms"]);
  EXPECT_GT(j["least_step_ms"], 0.8 * j["predicted"]["step_ms"].get<double>());
}

}  // namespace
}  // namespace colonnade::cli
