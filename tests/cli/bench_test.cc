// `colonnade bench` as a process.

#include <sys/resource.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/build_facts.h"
#include "cli/session/core_wait_count.h"
#include "cpu/threads/cores.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tests/counts_core_waits.h"
#include "tests/sanitized.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

TEST_F(Command, BenchTransfersPrintsRowsAsNcclTests) {
  const Result r = Run("bench transfers --operation=all_reduce -b 4K -e 16K -f 2 -g 2,3 -n 4 -w 1");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(absl::StrCat("# colonnade ", ThisBuild().version)));
  EXPECT_THAT(r.out, HasSubstr("oneDNN "));
  EXPECT_THAT(r.out, HasSubstr("#  Device  2: thread of "));
  EXPECT_THAT(r.out, HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
  std::vector<int64_t> sizes;
  for (const std::string& line : Lines(r.out)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t size = 0;
    double mean = 0, algbw = 0, busbw = 0;
    if (words.size() != 9 || !absl::SimpleAtoi(words[0], &size)) continue;
    sizes.push_back(size);
    ASSERT_TRUE(absl::SimpleAtod(words[3], &mean) && absl::SimpleAtod(words[6], &algbw) &&
                absl::SimpleAtod(words[7], &busbw));
    EXPECT_NEAR(algbw, static_cast<double>(size) / mean / 1e3, 0.02 * algbw + 0.001) << line;
    EXPECT_NEAR(busbw, algbw * (sizes.size() <= 3 ? 1.0 : 4.0 / 3), 0.002) << line;
    EXPECT_EQ(words[8], "0");
  }
  // Three devices share what three divides.
  EXPECT_THAT(sizes, ElementsAre(4096, 8192, 16384, 4092, 8184, 16380));
  // The pairs: a row and a column for each device.
  EXPECT_THAT(r.out, ::testing::ContainsRegex("\n  0 +N/A +[0-9.]+ +[0-9.]+\n  1 +[0-9.]+ +N/A +[0-9.]+\n"));
}

TEST_F(Command, BenchTransfersMeasuresASizeOnce) {
  const Result r =
      Run("bench transfers --operation=all_gather,channel_slice -b 4 -e 16K -f 2 -g 2 -n 1 -w 0 --matrix=off --json");
  ASSERT_EQ(r.code, 0) << r.err;
  std::map<std::string, std::vector<int64_t>> sizes;
  const json found = json::parse(r.out);
  for (const json& row : found["transfers"]) sizes[row["operation"]].push_back(row["size_bytes"]);
  EXPECT_THAT(sizes["all_gather"], ElementsAre(16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384));
  EXPECT_THAT(sizes["channel_slice"], ElementsAre(8192, 16384));
}

TEST_F(Command, BenchTransfersPrintsJsonThatCalibrateReads) {
  const Result r =
      Run("bench transfers --operation=exchange,all_gather,channel_slice -b 4096 -e 4096 -g 2 --check=0 -n 3 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json found = json::parse(r.out);
  ASSERT_EQ(found["transfers"].size(), 3u);
  EXPECT_EQ(found["device_names"].size(), 2u);
  EXPECT_EQ(found["transfers"][1]["operation"], "all_gather");
  EXPECT_EQ(found["transfers"][1]["size_bytes"], 4096);
  EXPECT_EQ(found["transfers"][1]["count"], 512);  // of one of the two
  EXPECT_TRUE(found["transfers"][1]["wrong"].is_null()) << "nothing was checked";
  EXPECT_TRUE(found["pairs"]["gb_per_s"][1][1].is_null());
  EXPECT_GT(found["pairs"]["gb_per_s"][0][1], 0);
  Write("t.json", r.out);
  const Result calibrate = Run(absl::StrCat("calibrate --model=two_column --batch=16 --devices=2 --out=", In("m.json"),
                                            " --transfers=", In("t.json")));
  EXPECT_EQ(calibrate.code, 0) << calibrate.err;
  const Result simulated = Run(absl::StrCat("simulate --model=two_column --batch=16 --draws=0 --machine=", In("m.json")));
  EXPECT_EQ(simulated.code, 0) << simulated.err;
}

TEST_F(Command, BenchTransfersRefusesWhatMakesNoSense) {
  ExpectError("bench transfers -b 1M -e 1K", 2, {"--min-bytes", "at most --max-bytes=1024", "1048576"});
  ExpectError("bench transfers -b 3", 2, {"from 4 to 16G", "\"3\""});
  ExpectError("bench transfers -b 4T", 2, {"from 4 to 16G", "\"4T\""});
  ExpectError("bench transfers -e 17G", 2, {"from 4 to 16G", "\"17G\""});
  ExpectError("bench transfers -f 1", 2, {"--factor"});
  ExpectError("bench transfers -g 1", 2, {"--devices"});
  ExpectError("bench transfers --operation=all_refuse", 2, {"--operation", "all_refuse"});
  ExpectError("bench transfers --dtype=bf16", 2, {"--dtype: expected one of fp32, found \"bf16\""});
}

TEST_F(Command, BenchTransfersPrintsTheRowsBeforeOneThatFails) {
  if (kSanitized) GTEST_SKIP() << "skipped: sanitizers take more address space than is given here";
  for (const char* json_flag : {"", " --json"}) {
    const Result r =
        Wait(Start(absl::StrCat("bench transfers --operation=all_reduce -b 4K -e 4G -f 1048576 -g 2 -n 1", json_flag), [] {
          const rlimit bytes{rlim_t{3} << 30, rlim_t{3} << 30};
          ::setrlimit(RLIMIT_AS, &bytes);
        }));
    EXPECT_EQ(r.code, 12) << r.err;
    EXPECT_THAT(r.err, HasSubstr("--max-bytes: all_reduce of 4294967296 bytes on 2 devices needs at least 8.6 GB of this "
                                 "machine's memory, "));
    if (*json_flag == '\0') {
      EXPECT_THAT(r.out, HasSubstr("# Avg bus bandwidth    : "));
      continue;
    }
    const json found = json::parse(r.out);
    ASSERT_EQ(found["transfers"].size(), 1u);
    EXPECT_EQ(found["transfers"][0]["size_bytes"], 4096);
    EXPECT_GT(found["average_busbw_gb_per_s"], 0);
  }
}

// Each measures Programs, after which the machine would have none left.
TEST_F(Command, WhatMeasuresRefusesABatchThatThisMachineHasNoMemoryFor) {
  const std::vector<std::string> refused = {"--batch: 1048576 needs at least ", " GB are free; a batch of ", " would fit"};
  ExpectError("bench plans data --model=alexnet2012 --batch=1048576 --slices=1 --machine=cpu-2core", 12, refused);
  ExpectError("bench step --model=alexnet2012 --batch=1048576 --steps=1 --backend=cpu", 12, refused);
  ExpectError(absl::StrCat("calibrate --model=alexnet2012 --batch=1048576 --devices=1 --out=", In("m.json")), 12,
              {"alexnet2012, single on 1, timed at batches around --batch: batch: 1572864 needs at least ", " would fit"});
}

TEST_F(Command, BenchIsAGroup) {
  ExpectError("bench", 2, {"bench: expected one of transfers, step, plans, simulator behind it"});
  ExpectError("bench transfer", 2, {"bench: unknown sub-command \"transfer\", did you mean \"transfers\"?"});
  ExpectError("bench step --model=lenet --bach=3", 2, {"did you mean \"--batch\"?"});
  const Result theirs = Run("bench transfers --operation=exchange --minbytes=4K --maxbytes=4K --iters=2 --matrix=off");
  EXPECT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_THAT(theirs.err, HasSubstr("read --minbytes as --min-bytes"));
}

TEST_F(Command, BenchStepSaysWhereTheTimeGoes) {
  const Result r = Run("bench step --model=two_column --batch=32 --devices=2 --plan=data --steps=5 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json step = json::parse(r.out);
  EXPECT_EQ(step["steps"], 5);
  EXPECT_EQ(step["plan"], "data");
  EXPECT_LE(step["step_ms"]["p10"], step["step_ms"]["median"]);
  EXPECT_LE(step["step_ms"]["median"], step["step_ms"]["p90"]);
  const double seconds = step["step_ms"]["median"].get<double>() / 1e3;
  EXPECT_NEAR(step["images_per_s"], 32 / seconds, 1e-6 * 32 / seconds);
  double flops = 0, shares = 0;
  bool reduces = false;
  for (const json& kind : step["kinds"]) {
    flops += kind["flops"].get<double>();
    reduces |= kind["kind"] == "all_reduce";
    EXPECT_GT(kind["device_ms"], 0) << kind;
  }
  EXPECT_TRUE(reduces);
  EXPECT_NEAR(step["flop_per_s"], flops / seconds, 1e-6 * flops / seconds);
  for (const json& share : step["breakdown"]) shares += share.get<double>();
  EXPECT_NEAR(shares, 1, 1e-6);
  EXPECT_EQ(step["peak_memory_bytes"].size(), 2u);
  for (const char* part : {"start_up", "first_step"}) {
    EXPECT_GT(step[part]["ms"], 0) << part;
    EXPECT_GT(step[part]["processor_ms"], 0) << part;
  }
  EXPECT_FALSE(step.contains("ceilings") || step.contains("against")) << "unless they are asked for";
  // Text says the same, and has a line for each kind.
  const Result text = Run("bench step --model=two_column --batch=32 --steps=3");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("median of 3"));
  EXPECT_THAT(text.out, HasSubstr("\nconv_backward_weights "));
  EXPECT_THAT(text.out, HasSubstr("start-up: the Program was ready after "));
}

TEST_F(Command, BenchStepWithReferenceKernelsIsInFp64) {
  const Result r = Run("bench step --model=two_column --width=0.25 --batch=4 --steps=1 --kernels=reference --json");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["dtype"], "fp64");
}

// By what runs, which `auto` finds, and not by what the command line says.
TEST_F(Command, BenchStepThatDoesNotFitSaysSoBeforeItLoads) {
  for (const char* backend : {"", "--backend=cpu "}) {
    const Result r = Run(absl::StrCat("bench step --model=vgg16 --batch=1048576 ", backend));
    EXPECT_EQ(r.code, 12) << r.err;
    EXPECT_THAT(r.err, HasSubstr("--batch"));
  }
}

class BenchProgress : public Command {
 protected:
  void ExpectSays(const std::string& arguments, const std::string& message) const {
    const pid_t child = Start(arguments);
    AwaitMessage(message);
    ::kill(child, SIGKILL);
    Wait(child);
  }
};

TEST_F(BenchProgress, CountsStepsSlicesAndTransfersWhileTheyAreTimed) {
  ExpectSays("bench step --model=two_column --steps=1048576 --machine=cpu-2core", "/1048576 steps [");
  ExpectSays("bench plans --model=two_column --slices=1000 --machine=cpu-2core", "/6000 slices, ");
  if (!kSanitized) ExpectSays("bench simulator --model=lenet --slices=1000 --rounds=1", "/4000 slices, lenet single x 1");
  ExpectSays("bench transfers --operation=exchange -b 64M -e 64M -n 100000", "transfer 0/");
}

TEST_F(Command, BenchStepDrawsItsRoofline) {
  if (kSanitized) GTEST_SKIP() << "skipped: ceilings take arrays larger than all caches";
  const Result r = Run(absl::StrCat(
      "bench step --model=two_column --batch=32 --devices=2 --plan=data --steps=3 --json --roofline=", In("roofline.svg")));
  ASSERT_EQ(r.code, 0) << r.err;
  const json ceilings = json::parse(r.out)["ceilings"];
  EXPECT_GT(ceilings["flop_per_s"], 1e8);
  EXPECT_GT(ceilings["bytes_per_s"], 1e7);
  const std::string svg = *engine::ReadFile(In("roofline.svg"));
  EXPECT_THAT(svg, HasSubstr("two_column, batch 32, plan data on 2 CPU devices, fp32"));
  EXPECT_THAT(svg, HasSubstr("<title>conv1 conv_forward, device 1: "));
  EXPECT_THAT(svg, HasSubstr(absl::StrFormat(">%.3g GB/s<", ceilings["bytes_per_s"].get<double>() / 1e9)));
  ExpectError("bench step --model=two_column --steps=3 --roofline=no_such_folder/roofline.svg", 74, {"no_such_folder"});
}

TEST_F(Command, BenchPlansRunsThePlansThatAreNamed) {
  const std::string bench = "bench plans --model=two_column --slices=1 --machine=cpu-2core --json ";
  const auto plans_of = [&](const std::string& flags) {
    const Result r = Run(absl::StrCat(bench, flags));
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<std::string> plans;
    const json found = json::parse(r.out);
    for (const json& plan : found["plans"]) plans.push_back(plan["plan"]);
    return plans;
  };
  EXPECT_THAT(plans_of("owt single"), ElementsAre("single", "owt"));
  EXPECT_THAT(plans_of("auto"), ElementsAre("auto"));
  EXPECT_THAT(plans_of("--devices=1"), ElementsAre("single"));
  ExpectError(absl::StrCat(bench, "dta"), 2, {"PLAN", "single", "dta"});
  ExpectError(absl::StrCat(bench, "hybrid --devices=3"), 2, {"3"});
}

TEST_F(Command, BenchPlansSaysWhichPlansAreLeftOutAndWhy) {
  const Result r = RunHere("bench plans --model=lenet --batch=33 --slices=1 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json found = json::parse(r.out);
  ASSERT_EQ(found["left_out"].size(), 2u);
  for (int i : {0, 1}) {
    const std::string plan = i == 0 ? "data" : "owt", why = found["left_out"][i]["why"];
    EXPECT_EQ(found["left_out"][i]["plan"], plan);
    EXPECT_THAT(why, HasSubstr("33"));
    EXPECT_THAT(r.err, HasSubstr(absl::StrCat("plan ", plan, " is left out: ", why, "\n")));
  }
  EXPECT_EQ(found["machine"], "cpu-2core") << "the profile that was read, not the flag";
  EXPECT_TRUE(found["plans"][0]["spread"].is_null()) << "of one slice";
}

TEST(BusyWarning, IsOfATenthOfTheTimeOrMore) {
  EXPECT_EQ(BusyWarning(0.09), "");
  EXPECT_THAT(BusyWarning(0.1),
              HasSubstr("the machine was busy: a thread of a device waited for a core for 10 % of the time"));
}

// Two devices on one core wait for each other.
TEST_F(Command, BenchStepAndCalibrateWarnWhereThreadsWaitForACore) {
  if (!CountsCoreWaits()) GTEST_SKIP() << "skipped: this system does not count how long threads wait for a core";
  const std::vector<int> cores = cpu::CoresOfProcess();
  const auto on_one_core = [&](const std::string& words) {
    return Wait(Start(words, [&] { cpu::KeepToCores({cores.front()}); }));
  };
  for (const std::string& words :
       {std::string("bench step --model=two_column --batch=64 --plan=data --devices=2"),
        absl::StrCat("calibrate --model=two_column --batch=64 --devices=2 --out=", In("m.json"))}) {
    const Result r = on_one_core(words);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("warning: the machine was busy: a thread of a device waited for a core for ")) << words;
  }
}

TEST_F(Command, BenchPlansRunsEveryPlanAndThePlanners) {
  const Result r = Run("bench plans --model=two_column --slices=2 --machine=cpu-2core --json");
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<std::string> names;
  const json found = json::parse(r.out);
  for (const json& plan : found["plans"]) {
    names.push_back(plan["plan"]);
    EXPECT_EQ(plan["devices"], names.back() == "single" ? 1 : 2);
    EXPECT_GT(plan["predicted_ms"], 0);
    EXPECT_GT(plan["measured_ms"], 0);
    EXPECT_GE(plan["spread"], 0);
  }
  EXPECT_THAT(names, ElementsAre("single", "data", "model", "hybrid", "owt", "auto"));
  ExpectError("bench plans --model=two_column --deterministic", 2, {"--deterministic", "--backend=cuda"});
}

TEST_F(Command, BenchSimulatorComparesEveryCase) {
  if (kSanitized) GTEST_SKIP() << "skipped: a calibration takes long under a sanitizer";
  const Result r = Run("bench simulator --model=lenet --rounds=2 --slices=1 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json found = json::parse(r.out);
  ASSERT_EQ(found["cases"].size(), 4u);
  for (const json& one : found["cases"]) {
    ASSERT_EQ(one["predicted_ms"].size(), 2u);
    EXPECT_GT(one["predicted_ms"][1], 0);
    EXPECT_LT(one["memory_error"], 0.05);
  }
  EXPECT_THAT(r.err, HasSubstr("round 2: lenet owt x 2: predicted "));
  EXPECT_EQ(found["dtype"], "fp32");
  const Result bf16 = Run("bench simulator --model=lenet --rounds=1 --slices=1 --dtype=bf16 --json");
  ASSERT_EQ(bf16.code, 0) << bf16.err;
  const json found_bf16 = json::parse(bf16.out);
  EXPECT_EQ(found_bf16["dtype"], "bf16");
  for (const json& one : found_bf16["cases"]) {
    EXPECT_LT(one["memory_error"], 0.05) << one;
    EXPECT_TRUE(one["spread"].is_null()) << "of one round";
  }
  EXPECT_TRUE(found_bf16["pairs"].is_null() && found_bf16["pairs_in_order"].is_null());
  EXPECT_TRUE(found["pairs"].is_number());
  ExpectError("bench simulator --model=resnet152", 2, {"--model", "resnet152"});
}

}  // namespace
}  // namespace colonnade::cli
