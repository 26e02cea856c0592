// Files of each version of each format, as they were written when that version was new: what reads later versions reads
// them (docs/versions.md).
//
// tests/golden/checkpoint_version_1 is step 3 of `train --model=two_column --data=digits --width=0.125 --steps=6
// --checkpoint=DIR --checkpoint-every=3` at commit 9533022. plan_version_1.json and program.txt are `plan --save-plan` and
// `program` of two_column under --plan=hybrid --devices=4 --batch=8, the latter of --width=0.125; machine_version_1.json
// is `table --out`.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/checkpoint.h"
#include "engine/io/file.h"
#include "engine/io/weights.h"
#include "engine/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "partition/plan.h"
#include "program/text.h"
#include "tests/cli/command.h"
#include "tests/engine/load_weights.h"
#include "tests/paths.h"

namespace colonnade::cli {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class GoldenCheckpoint : public Command {
 protected:
  const std::string golden_ = absl::StrCat(kSourceDir, "/tests/golden/checkpoint_version_1");
  const std::string train_ = "train --model=two_column --data=digits --width=0.125 --json ";
};

TEST_F(GoldenCheckpoint, OfVersion1SaysWhatItSaid) {
  ASSERT_THAT(*engine::ReadFile(golden_ + "/manifest.json"), HasSubstr("\"version\": 1,"));
  const absl::StatusOr<engine::VerifiedCheckpoint> checkpoint = engine::VerifiedCheckpoint::Open(golden_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest().position.step, 3);
  EXPECT_EQ(checkpoint->manifest().position.sample, 192);
  EXPECT_EQ(checkpoint->manifest().position.loss, 2.6718253504707974);
  EXPECT_EQ(checkpoint->manifest().run.front(), (std::pair<std::string, std::string>("model", "two_column")));
}

TEST_F(GoldenCheckpoint, OfVersion1HasTheValuesThatItHad) {
  const auto last_of = [&](const std::string& file) {
    return engine::LoadWeights(absl::StrCat(golden_, "/", file))->front().values.back();
  };
  EXPECT_EQ(last_of("weights.safetensors"), 0x1.844038p-4);
  EXPECT_EQ(last_of("momentum.safetensors"), 0x1.7c7d62p-10);
}

// Losses are those that a run goes on with, in the order of samples of today (data/sample_order.h), which is another than
// when it was saved; on another plan or processor within 1e-4, as docs/checkpoints.md promises.
TEST_F(GoldenCheckpoint, OfVersion1IsGoneOnFromUnderAnyPlan) {
  for (const char* plan : {"", "--plan=hybrid --devices=4 "}) {
    const Result r = Run(absl::StrCat(train_, plan, "--steps=6 --resume=", golden_));
    ASSERT_EQ(r.code, 0) << r.err;
    const std::vector<double> losses = nlohmann::json::parse(r.out)["losses"];
    EXPECT_THAT(losses, Pointwise(DoubleNear(2.5e-4), {2.484087270083702, 2.3680827727247173, 2.3263305914456627})) << plan;
  }
}

// A file of tensors without its metadata, which are new.
std::string WithoutMetadata(const std::string& path) {
  const std::string bytes = *engine::ReadFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  auto header = nlohmann::ordered_json::parse(bytes.substr(sizeof(length), length));
  header.erase("__metadata__");
  return absl::StrCat(header.dump(), bytes.substr(sizeof(length) + length));
}

// The same state is written as the same bytes but for the metadata: what writes version 1 still writes it.
TEST_F(GoldenCheckpoint, OfVersion1IsWrittenAgainAsItWas) {
  const Result r = Run(absl::StrCat(train_, "--lr=0 --momentum=0 --allow-change=lr,momentum --steps=4 --resume=", golden_,
                                    " --checkpoint=", In("run")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(WithoutMetadata(In("run/step-000000004/weights.safetensors")),
            WithoutMetadata(golden_ + "/weights.safetensors"));
  const absl::StatusOr<engine::Manifest> old_one = engine::ReadManifest(golden_);
  absl::StatusOr<engine::Manifest> new_one = engine::ReadManifest(In("run/step-000000004"));
  ASSERT_TRUE(new_one.ok()) << new_one.status();
  new_one->position = old_one->position;
  new_one->test = old_one->test;  // none: a key that is absent where there was no test
  new_one->run = old_one->run;
  new_one->files = old_one->files;
  EXPECT_EQ(engine::ToJson(*new_one), *engine::ReadFile(golden_ + "/manifest.json"));
}

std::string Golden(const std::string& name) { return *engine::ReadFile(absl::StrCat(kSourceDir, "/tests/golden/", name)); }

TEST(GoldenPlan, OfVersion1IsReadAndWrittenAgainAsItWas) {
  const absl::StatusOr<partition::Plan> plan = partition::PlanFromJson(Golden("plan_version_1.json"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->name, "hybrid");
  EXPECT_EQ(plan->mesh.device_count(), 4);
  EXPECT_EQ(plan->bucket_bytes, 8 << 20);
  EXPECT_EQ(plan->layers.at("conv2"), (std::vector<layers::Strategy>{layers::Strategy::kBatch, layers::Strategy::kGroup}));
  EXPECT_EQ(nlohmann::json::parse(partition::PlanToJson(*plan)), nlohmann::json::parse(Golden("plan_version_1.json")));
}

TEST_F(Command, AGoldenPlanRuns) {
  const Result r = Run(absl::StrCat("train --model=two_column --data=digits --batch=8 --steps=1 --json --plan=", kSourceDir,
                                    "/tests/golden/plan_version_1.json"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["devices"], 4);
}

TEST(GoldenMachine, OfVersion1IsReadAndWrittenAgainAsItWas) {
  const absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(Golden("machine_version_1.json"));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->devices.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(engine::MachineToJson(*machine)), nlohmann::json::parse(Golden("machine_version_1.json")));
}

TEST(GoldenProgram, IsReadAndPrintedAgainAsItWas) {
  const absl::StatusOr<program::Program> program = program::Parse(Golden("program.txt"));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->device_count, 4);
  EXPECT_EQ(program::Print(*program), Golden("program.txt"));
}

}  // namespace
}  // namespace colonnade::cli
