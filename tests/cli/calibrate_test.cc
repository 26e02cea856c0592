// What calibrate writes and reads, by the command.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/calibration_time.h"
#include "cli/input_run.h"
#include "cpu/about.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

TEST(RunInput, ReadsSoManyEpochsOrForSoLong) {
  InputFlags flags;
  flags.data.source = "digits";
  const Samples digits = *OpenInput(flags);
  int64_t seen = 0;
  const auto count = [&](const data::Batch& batch) {
    seen += std::count_if(batch.samples.begin(), batch.samples.end(), [](const auto& sample) { return sample.label >= 0; });
  };
  const InputRun twice = *RunInput(flags, digits, /*threads=*/2, {.epochs = 2}, count);
  EXPECT_EQ(twice.count, 2 * 1437);
  EXPECT_EQ(seen, twice.count);
  const absl::Duration time = absl::Milliseconds(50);
  const InputRun timed = *RunInput(flags, digits, /*threads=*/2, {.epochs = int64_t{1} << 20, .time = time}, count);
  EXPECT_GE(timed.elapsed, time);
  EXPECT_EQ(seen, twice.count + timed.count);
  EXPECT_DOUBLE_EQ(timed.images_per_s(), static_cast<double>(timed.count) / absl::ToDoubleSeconds(timed.elapsed));
}

TEST(PlansToTime, LeavesOutNumbersOfDevicesThatHardlyDifferUnlessAllAreWanted) {
  const auto devices_of = [](int devices, bool all) {
    std::set<int> numbers;
    for (const tools::CalibrationPlan& plan : PlansToTime(devices, all)) numbers.insert(plan.devices);
    return numbers;
  };
  EXPECT_THAT(devices_of(4, false), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(devices_of(11, false), ElementsAre(1, 2, 3, 4, 8, 11));
  EXPECT_THAT(devices_of(7, true), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(SecondsOfAnImage, AreOfPartsOfARun) {
  const auto at = [](double seconds, int64_t images) { return Arrival{absl::UnixEpoch() + absl::Seconds(seconds), images}; };
  EXPECT_THAT(SecondsOfAnImage({at(1, 4)}), IsEmpty()) << "one batch has no time";
  EXPECT_THAT(SecondsOfAnImage({at(1, 4), at(3, 8), at(4, 12)}), ElementsAre(0.5, 0.25));
  std::vector<Arrival> many;
  for (int i = 0; i <= 100; ++i) many.push_back(at(i % 2 == 0 ? i : i - 1, 10 * i));  // by twos
  const std::vector<double> parts = SecondsOfAnImage(many);
  ASSERT_EQ(parts.size(), 10u);
  for (double seconds : parts) EXPECT_NEAR(seconds, 0.1, 1e-9);
}

TEST_F(Command, CalibrateWritesAProfileThatPlansAndTrains) {
  const Result r = Run(absl::StrCat("calibrate --model=two_column --batch=32 --devices=2 --out=", In("m.json")));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string machine = absl::StrCat(" --machine=", In("m.json"));
  const Json profile = Json::parse(*engine::ReadFile(In("m.json")));
  for (const Json& op : profile.at("ops")) EXPECT_GE(op.at("within"), 1) << op;
  const Result plan = Run(absl::StrCat("plan --model=two_column --batch=32 --devices=2 --plan=auto --json", machine));
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json predicted = Json::parse(plan.out)["predicted"];
  EXPECT_GT(predicted["step_ms"], 0);
  EXPECT_LT(predicted["step_ms_low"], predicted["step_ms_high"]) << "the times of kernels differ from run to run";
  const Result train =
      Run(absl::StrCat("train --model=two_column --data=digits --plan=auto --devices=2 --steps=3 --json", machine));
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(Json::parse(train.out)["plan"], "auto");
}

// The rates of two_column say little of other networks, which predictions for those say, and what takes its place.
TEST_F(Command, AProfileOfOneNetworkIsSaidToBeOfThatOne) {
  const std::string calibrate = absl::StrCat("calibrate --model=two_column --batch=16 --devices=1 --out=", In("m.json"));
  const Result first = Run(calibrate);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, Not(HasSubstr("note: ")));
  Json profile = Json::parse(*engine::ReadFile(In("m.json")));
  EXPECT_EQ(profile["timed"], Json({"two_column"}));
  const std::string warning =
      "its rates were measured at the shapes of two_column alone; predictions for lenet may be wrong";
  const std::string of_lenet = absl::StrCat(" --model=lenet --batch=16 --machine=", In("m.json"));
  for (const char* command : {"plan --draws=0", "simulate --draws=0", "train --steps=1"}) {
    EXPECT_THAT(Run(absl::StrCat(command, of_lenet)).err, HasSubstr(warning)) << command;
  }
  EXPECT_THAT(Run(absl::StrCat("plan --draws=0 --model=two_column --batch=16 --machine=", In("m.json"))).err,
              Not(HasSubstr("alone")));
  EXPECT_THAT(Run(calibrate).err, Not(HasSubstr("note: "))) << "of the same network";
  profile["timed"] = {"lenet", "vgg11"};
  Write("m.json", profile.dump());
  EXPECT_THAT(Run(calibrate).err,
              HasSubstr(absl::StrCat("note: this replaced the profile of lenet, vgg11 in ", In("m.json"))));
}

// A profile is of one element type: steps in it are predicted by it, and what predicts others says so.
TEST_F(Command, CalibrateInBf16WritesAProfileOfItsOwn) {
  const std::string profile = In("colonnade/machine-bf16.json");
  const Result calibrated = RunHere("calibrate --model=two_column --batch=32 --devices=2 --dtype=bf16");
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  EXPECT_EQ(Json::parse(*engine::ReadFile(profile)).at("precision"), "bf16");
  EXPECT_FALSE(std::filesystem::exists(In("colonnade/machine.json")));

  const std::string plan = "plan --model=two_column --batch=32 --devices=2 --plan=data";
  const Result alike = RunHere(plan + " --dtype=bf16");
  EXPECT_THAT(alike.err, AllOf(HasSubstr("machine local: " + profile), Not(HasSubstr("warning"))));
  EXPECT_THAT(RunHere(plan).err,
              AllOf(HasSubstr("not calibrated yet, so the times are those of cpu-2core"), Not(HasSubstr("warning"))));
  EXPECT_THAT(RunHere(plan + " --machine=" + profile).err,
              HasSubstr("its rates are of kernels in bf16, the step is in fp32; `colonnade calibrate` measures those"));
  const Result other = RunHere(plan + " --machine=hgx-h100 --dtype=bf16 --json");
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("rates are of kernels in fp32, the step is in bf16\n"), Not(HasSubstr("calibrate"))));
  EXPECT_EQ(Json::parse(other.out)["dtype"], "bf16");
  EXPECT_THAT(RunHere("table --draws=0 --dtype=bf16").err, Not(HasSubstr("the step is in"))) << "the rows are in fp32";

  // A profile of before, which states no precision, is of fp32; it stands in where there is none of bf16.
  std::filesystem::rename(profile, In("colonnade/machine.json"));
  Json of_before = Json::parse(*engine::ReadFile(In("colonnade/machine.json")));
  of_before.erase("precision");
  Write("colonnade/machine.json", of_before.dump());
  const Result simulated = RunHere("simulate" + plan.substr(4) + " --dtype=bf16 --json");
  EXPECT_THAT(simulated.err, HasSubstr("in fp32, the step is in bf16; `colonnade calibrate --dtype=bf16` measures those"));
  EXPECT_EQ(Json::parse(simulated.out)["dtype"], "bf16");
  std::filesystem::remove(In("colonnade/machine.json"));
  of_before["precision"] = "bf16";
  Write("colonnade/machine-bf16.json", of_before.dump());

  const std::string train = "train --model=two_column --data=digits --plan=data --devices=2 --steps=12 --batch=32";
  EXPECT_THAT(RunHere(train + " --dtype=bf16").err, Not(HasSubstr("no predicted times")));
  EXPECT_THAT(RunHere(train).err,
              HasSubstr("no predicted times: `colonnade calibrate` measures this machine and gives them"));
  EXPECT_THAT(RunHere(train + " --machine=" + profile).err, HasSubstr("no predicted times: machine local"));
}

// As of element types: a profile is of one kind of kernels.
TEST_F(Command, CalibrateByWinogradWritesAProfileOfItsOwn) {
  if (!cpu::HasWinograd()) GTEST_SKIP() << "skipped: this processor has no Winograd kernels";
  const std::string profile = In("colonnade/machine-winograd.json");
  const Result calibrated = RunHere("calibrate --model=two_column --batch=32 --devices=2 --kernels=winograd");
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  EXPECT_EQ(Json::parse(*engine::ReadFile(profile)).at("kernels"), "winograd");
  EXPECT_FALSE(std::filesystem::exists(In("colonnade/machine.json")));

  const std::string plan = "plan --model=two_column --batch=32 --devices=2 --plan=data";
  const Result alike = RunHere(plan + " --kernels=winograd --json");
  EXPECT_THAT(alike.err, AllOf(HasSubstr("machine local: " + profile), Not(HasSubstr("warning"))));
  EXPECT_EQ(Json::parse(alike.out)["kernels"], "winograd");
  EXPECT_THAT(RunHere(plan).err,
              AllOf(HasSubstr("not calibrated yet, so the times are those of cpu-2core; `colonnade calibrate` measures"),
                    Not(HasSubstr("warning"))));
  EXPECT_THAT(RunHere(plan + " --machine=" + profile + " --dtype=bf16").err,
              HasSubstr("its rates are of winograd kernels in fp32, the step is of onednn kernels in bf16; "
                        "`colonnade calibrate --dtype=bf16` measures those"));
  EXPECT_THAT(RunHere("simulate" + plan.substr(4) + " --kernels=winograd --dtype=bf16").err,
              HasSubstr("`colonnade calibrate --kernels=winograd --dtype=bf16` measures"));
  EXPECT_THAT(RunHere(plan + " --machine=hgx-h100 --kernels=winograd").err, Not(HasSubstr("warning"))) << "GPUs have others";

  const std::string train = "train --model=two_column --data=digits --plan=data --devices=2 --steps=12 --batch=32";
  EXPECT_THAT(RunHere(train + " --kernels=winograd").err, Not(HasSubstr("no predicted times")));
  EXPECT_THAT(RunHere(train).err,
              HasSubstr("no predicted times: `colonnade calibrate` measures this machine and gives them"));
  EXPECT_THAT(RunHere(train + " --machine=" + profile).err, HasSubstr("no predicted times: machine local"));
  EXPECT_THAT(RunHere(train + " --kernels=reference").err, HasSubstr("no profile is of --kernels=reference"));
}

TEST_F(Command, CalibrateReadsTransfersOrSaysWhatIsWrongWithThemFirst) {
  ASSERT_TRUE(engine::ReplaceFile(In("t.json"), R"({"transfers": [
      {"operation": "all_reduce", "devices": 2, "size_bytes": 123000, "p50_us": 77}]})")
                  .ok());
  const std::string command =
      absl::StrCat("calibrate --model=two_column --batch=16 --devices=2 --out=", In("m.json"), " --transfers=");
  const Result good = Run(command + In("t.json"));
  ASSERT_EQ(good.code, 0) << good.err;
  bool found = false;
  const Json machine = Json::parse(*engine::ReadFile(In("m.json")));
  for (const Json& transfer : machine["transfers"]) {
    for (const Json& point : transfer["points"]) found |= transfer["what"] == "all_reduce" && point[0] == 123000.0;
  }
  EXPECT_TRUE(found);
  ASSERT_TRUE(engine::ReplaceFile(In("t.json"), "{}").ok());
  const Result bad = Run(command + In("t.json"));
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("t.json: expected the JSON of colonnade bench transfers"));
  EXPECT_EQ(Run(command + In("none.json")).code, 66);
}

class Calibrate : public Command {
 protected:
  Json ProfileOf(const std::string& arguments) const {
    const Result r = Run(absl::StrCat("calibrate --model=two_column --batch=16 --devices=2 --transfers=", In("t.json"),
                                      " --out=", In("m.json"), " ", arguments));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(*engine::ReadFile(In("m.json")));
  }
  void SetUp() override {
    Command::SetUp();
    ASSERT_TRUE(engine::ReplaceFile(In("t.json"), R"({"transfers": [
        {"operation": "all_reduce", "devices": 2, "size_bytes": 4096, "p50_us": 7}]})")
                    .ok());
  }
};

TEST_F(Calibrate, WritesTheRateOfTheInputThatIoBenchMeasures) {
  const Json machine = ProfileOf("--data=digits --augment=pad:2 --input-size=64");
  const Json& rate = machine.at("input_images_per_sec");
  EXPECT_EQ(rate.at("from"), "measured");
  EXPECT_THAT(rate.at("source"), HasSubstr("digits train: 1437 images [1,64,64]"));
  const Result bench = Run("io-bench --data=digits --augment=pad:2 --input-size=64 --epochs=20 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  const double ratio = rate.at("value").get<double>() / Json::parse(bench.out).at("images_per_s").get<double>();
  EXPECT_GT(ratio, 0.25);
  EXPECT_LT(ratio, 4);
  EXPECT_GE(rate.at("within"), 1);
  EXPECT_LT(rate.at("within"), 4);
  // Training copies 4 KB for each image.
  EXPECT_GT(machine.at("step_sec_per_image").at("value"), 1e-8);
  EXPECT_LT(machine.at("step_sec_per_image").at("value"), 1e-4);
}

TEST_F(Calibrate, WithoutDataNothingIsSaidOfTheInput) {
  const Json machine = ProfileOf("");
  EXPECT_FALSE(machine.contains("input_images_per_sec"));
  // What the host takes is measured: some term of it stands there.
  double sum = 0;
  for (const char* term : {"step_sec", "step_sec_per_device", "step_sec_per_task"}) {
    if (machine.contains(term)) sum += machine.at(term).at("value").get<double>();
  }
  EXPECT_GT(sum, 0);
}

TEST_F(Calibrate, SaysWhyItHasNowhereToWrite) {
  const auto at_home = [&](const char* home) {
    return Wait(Start("calibrate", [home] {
      ::unsetenv("XDG_CACHE_HOME");
      home != nullptr ? ::setenv("HOME", home, 1) : ::unsetenv("HOME");
    }));
  };
  const Result none = at_home(nullptr);
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_THAT(none.err, HasSubstr("--out: expected where to write the profile, since HOME is not set"));
  Write("file", "");
  const std::string file = In("file");
  const Result refused = at_home(file.c_str());
  EXPECT_EQ(refused.code, 74) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr(absl::StrCat("cannot make folder ", file, ": File exists")), HasSubstr("--out=FILE")));
}

TEST_F(Calibrate, RefusesDataThatItCannotReadBeforeItMeasures) {
  const std::string command = absl::StrCat("calibrate --model=two_column --devices=2 --out=", In("m.json"));
  const Result r = Run(command + " --data=no/such/folder");
  EXPECT_EQ(r.code, 66);
  EXPECT_THAT(r.err, ::testing::Not(HasSubstr("calibrating by")));
  ExpectError(command + " --augment=none", 2, {"--augment", "--data"});
}

}  // namespace
}  // namespace colonnade::cli
