// What a profile says of a training before it begins, and of which plan it is to be.
#include "cli/training/forecast.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command.h"
#include "tools/machines.h"

namespace colonnade::cli {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

// A device is told to be slow by what it takes for the compute that is predicted for it.
TEST(MakeForecast, HasTheComputeOfEachDevice) {
  SessionFlags flags;
  flags.network.model = "two_column";
  flags.plan.name = "data";
  flags.plan.devices = 2;
  flags.plan.batch = 32;
  flags.profile.machine = absl::StrCat(kSourceDir, "/bench/machines/cpu-2core.json");
  const absl::StatusOr<Session> session = OpenSession(flags, nullptr);
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::StatusOr<Forecast> forecast = MakeForecast(flags, *session, "cpu");
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  EXPECT_GT(forecast->step, absl::ZeroDuration());
  EXPECT_THAT(forecast->compute_sec, SizeIs(2));
  EXPECT_THAT(forecast->compute_sec, Each(Gt(0)));
}

// Times of GPUs beside steps of the CPU would be nonsense, and the other way round.
TEST(MakeForecast, IsOfTheKindOfDevicesThatTrain) {
  SessionFlags flags;
  flags.network.model = "two_column";
  const absl::StatusOr<Session> session = OpenSession(flags, nullptr);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto error = [&](const char* machine, const char* backend) {
    flags.profile.machine = absl::StrCat(kSourceDir, "/bench/machines/", machine, ".json");
    return std::string(MakeForecast(flags, *session, backend).status().message());
  };
  EXPECT_THAT(error("dgx1-v100", "cpu"), HasSubstr("has no \"cores\", which CPU devices share; this run is on CPU devices"));
  EXPECT_THAT(error("cpu-2core", "cuda"), HasSubstr("is of CPU devices, this run is on GPUs"));
  EXPECT_EQ(error("dgx1-v100", "cuda"), "");
  EXPECT_EQ(error("cpu-2core", "cpu"), "");
}

// What the user asked of plans holds for those that are searched while the run goes on.
TEST(PlanSearch, LooksAmongPlansOfTheSettingsThatTheRunHas) {
  absl::StatusOr<engine::Machine> machine = tools::OpenMachine("dgx1-v100");
  ASSERT_TRUE(machine.ok()) << machine.status();
  const auto found = [&](const partition::PlanSettings& settings) {
    const Forecast forecast{.machine = *machine, .lower = {.global_batch = 256}, .settings = settings};
    PlanSearch search(forecast, *models::BuildModel("alexnet", {}), /*devices=*/2);
    search.AwaitUntil(absl::InfiniteFuture());
    return search.found()->step;
  };
  EXPECT_GT(found({.reduction = partition::Reduction::kMaster, .overlap = false}), found({}));
}

// Memory is short and links are slow: SGD fits on one device, AdamW with averages only where two share the weights.
TEST_F(Command, APlanIsSearchedForTheOptimiserThatTheRunHas) {
  Json machine = Json::parse(*engine::ReadFile(absl::StrCat(kSourceDir, "/bench/machines/dgx1-v100.json")));
  machine["memory_bytes"]["value"] = 80e6;
  for (Json& link : machine["links"]) link["bytes_per_sec"]["value"] = 1e6;
  Write("small.json", machine.dump());
  const std::string train = absl::StrCat(
      "train --model=two_column --data=digits --width=8 --batch=2 --steps=1 --devices=2 "
      "--plan=auto --json --machine=",
      In("small.json"));
  const auto devices = [&](const std::string& flags) {
    const Result r = Run(absl::StrCat(train, flags));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["devices"].get<int>();
  };
  EXPECT_EQ(devices(""), 1);
  EXPECT_EQ(devices(" --optimizer=adamw --ema=0.9"), 2);
}

}  // namespace
}  // namespace colonnade::cli
