// Programs that take turns on one backend: equal bits without the host waiting between them, in the memory of the largest.
#include "tests/engine/alternation.h"

#include "absl/strings/str_cat.h"
#include "cpu/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"

namespace colonnade::cpu {
namespace {

using engine::Alternation;
using engine::PlanOnDevices;
using engine::Turns;

class CpuBackendTurns : public testing::TestWithParam<PlanOnDevices> {};

std::unique_ptr<engine::Backend> MakeDevices(int devices) {
  auto backend = MakeCpuBackend({.devices = devices, .threads_per_device = 1});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

Alternation Alternate(const PlanOnDevices& on, int64_t steps, bool drains, bool spoils = false, int64_t copy_every = 0) {
  const auto backend = MakeDevices(on.devices);
  Turns turns(on, *backend, drains);
  turns.Load();
  if (spoils) turns.LoadSpoiler();
  turns.CopyEvery(copy_every);
  return turns.Run(steps);
}

TEST_P(CpuBackendTurns, AThousandStepsWithoutTheHostWaitingGiveTheBitsOfOneAfterTheOther) {
  constexpr int64_t kSteps = 500;  // of each Program
  ExpectEqualBits(Alternate(GetParam(), kSteps, /*drains=*/false), Alternate(GetParam(), kSteps, /*drains=*/true));
}

TEST_P(CpuBackendTurns, NothingOfAStepRestsOnWhatItsMemoryHeldBefore) {
  constexpr int64_t kSteps = 20;
  ExpectEqualBits(Alternate(GetParam(), kSteps, /*drains=*/false, /*spoils=*/true),
                  Alternate(GetParam(), kSteps, /*drains=*/true));
}

TEST_P(CpuBackendTurns, AStateThatIsCopiedBesideAStepIsThatBeforeIt) {
  constexpr int64_t kSteps = 60, kCopyEvery = 2;
  ExpectEqualBits(Alternate(GetParam(), kSteps, /*drains=*/false, /*spoils=*/false, kCopyEvery),
                  Alternate(GetParam(), kSteps, /*drains=*/true, /*spoils=*/false, kCopyEvery));
}

TEST_P(CpuBackendTurns, ProgramsShareStateWhateverBucketsTheyReduceItIn) {
  engine::ExpectOneStateWhateverTheBuckets(GetParam(), [] { return MakeDevices(GetParam().devices); });
}

INSTANTIATE_TEST_SUITE_P(Plans, CpuBackendTurns,
                         testing::Values(PlanOnDevices{"single", 1}, PlanOnDevices{"data", 2}, PlanOnDevices{"hybrid", 4},
                                         PlanOnDevices{"hybrid", 4, partition::Reduction::kMaster}),
                         [](const auto& info) { return absl::StrCat(info.param.plan, "_", info.index); });

// What a device keeps of a sharded update follows from the buckets.
TEST(CpuBackend, ShardedMomentaAreThoseOfTheirBuckets) {
  const PlanOnDevices on{"data", 2, partition::Reduction::kSharded};
  const auto backend = MakeDevices(2);
  const program::Program train = engine::LoweredFor(on, program::Mode::kTrain, 2000);
  const program::Program same = engine::LoweredFor(on, program::Mode::kEval, 2000);
  const program::Program other = engine::LoweredFor(on, program::Mode::kTrain, 1 << 30);
  ASSERT_TRUE(engine::Executor::Create(train, *backend).ok());
  EXPECT_TRUE(engine::Executor::Create(same, *backend).ok());
  const absl::Status refused = engine::Executor::Create(other, *backend).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(".momentum of device 0: another Program"));
}

TEST(CpuBackend, ProgramsThatTakeTurnsNeedTheMemoryOfTheLargest) {
  constexpr int64_t kBatch = 64;
  const layers::LayerGraph graph = *models::BuildModel("alexnet2012", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = kBatch});
  const auto backend = MakeDevices(4);
  std::vector<program::Program> programs;
  for (program::Mode mode : {program::Mode::kEval, program::Mode::kTrain}) {
    programs.push_back(*partition::Lower(graph, plan, {.mode = mode, .global_batch = kBatch}));
  }
  std::vector<int64_t> largest(4);
  for (const program::Program& program : programs) {
    const auto memory = backend->MemoryOf(program);
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (int d = 0; d < 4; ++d) largest[d] = std::max(largest[d], (*memory)[d].total_bytes());
  }
  auto eval = engine::Executor::Create(programs[0], *backend), train = engine::Executor::Create(programs[1], *backend);
  ASSERT_TRUE(eval.ok() && train.ok());
  for (int d = 0; d < 4; ++d) {
    EXPECT_LE(static_cast<double>(backend->TakenBytes(d)), 1.02 * static_cast<double>(largest[d]));
    EXPECT_GE(backend->TakenBytes(d), largest[d]);
  }
  train->reset();
  eval->reset();
  for (int d = 0; d < 4; ++d) EXPECT_LT(backend->TakenBytes(d), largest[d]) << "persistent buffers alone";
}

}  // namespace
}  // namespace colonnade::cpu
