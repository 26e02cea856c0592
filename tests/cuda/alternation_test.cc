// Programs that take turns on the CUDA backend, whose calls the host runs at once: what they share, moves and forgets, and
// copies of the state beside steps. In which order streams may run them: order_test.cc.
#include "tests/engine/alternation.h"

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "made_backend.h"

namespace colonnade::cuda {
namespace {

using engine::Alternation;
using engine::PlanOnDevices;

class CudaBackendTurns : public testing::TestWithParam<PlanOnDevices> {};

Alternation Alternate(const PlanOnDevices& on, bool graphs, bool drains, bool spoils) {
  constexpr int64_t kSteps = 8;
  auto calls = std::make_unique<HostCalls>(HostCallsOptions{.gpus = on.devices});
  const HostCalls& recorder = *calls;
  const auto backend =
      *MakeCudaBackend({.devices = on.devices, .graphs = graphs ? Graphs::kOn : Graphs::kOff}, std::move(calls));
  engine::Turns turns(on, *backend, drains);
  turns.CopyEvery(3);
  turns.Load();
  if (spoils) turns.LoadSpoiler();
  Alternation result = turns.Run(kSteps);
  EXPECT_EQ(recorder.graph_launches() > 0, graphs);
  return result;
}

TEST_P(CudaBackendTurns, EagerStepsAndGraphsGiveTheBitsOfOneAfterTheOtherOnWhateverMemoryHeldBefore) {
  const Alternation expected = Alternate(GetParam(), /*graphs=*/false, /*drains=*/true, /*spoils=*/false);
  for (bool graphs : {false, true}) {
    for (bool spoils : {false, true}) {
      ExpectEqualBits(Alternate(GetParam(), graphs, /*drains=*/false, spoils), expected);
    }
  }
}

TEST_P(CudaBackendTurns, ProgramsShareStateWhateverBucketsTheyReduceItIn) {
  engine::ExpectOneStateWhateverTheBuckets(GetParam(), [] {
    const int gpus = GetParam().devices;
    return *MakeCudaBackend({.devices = gpus}, std::make_unique<HostCalls>(HostCallsOptions{.gpus = gpus}));
  });
}

INSTANTIATE_TEST_SUITE_P(Plans, CudaBackendTurns,
                         testing::Values(PlanOnDevices{"single", 1}, PlanOnDevices{"data", 2}, PlanOnDevices{"hybrid", 4},
                                         PlanOnDevices{"hybrid", 4, partition::Reduction::kMaster}),
                         [](const auto& info) { return absl::StrCat(info.param.plan, "_", info.index); });

// As meters of several Programs do that take turns on one backend.
TEST(CudaKeptImages, AreLoadedAgainAfterALoadOrAStepOfAnotherProgram) {
  const program::Program small = OfLargeImages(64), large = OfLargeImages(128);
  for (const Graphs graphs : {Graphs::kOff, Graphs::kOn}) {
    Made made = MakeBackend({.devices = 1, .graphs = graphs}, {});
    // Returns the loss. The slots of the host are filled once; nothing is learned.
    const auto run = [&](engine::Executor& executor, uint64_t step, size_t period = 7) {
      const absl::StatusOr<absl::Span<float>> images = executor.NextInput<float>(engine::kImages);
      const absl::StatusOr<absl::Span<int32_t>> labels = executor.NextInput<int32_t>(engine::kLabels);
      EXPECT_TRUE(images.ok() && labels.ok());
      for (size_t i = 0; i < images->size() && step < 2; ++i) (*images)[i] = static_cast<float>(i % period);
      for (size_t i = 0; i < labels->size() && step < 2; ++i) (*labels)[i] = static_cast<int32_t>(i % 10);
      EXPECT_TRUE(executor.Enqueue({.learning_rate = 0, .step = step}).ok());
      const absl::StatusOr<engine::ScoredStep> result = engine::CollectScored(executor);
      EXPECT_TRUE(result.ok()) << result.status();
      return result.ok() ? result->loss : 0;
    };
    const auto one = engine::Executor::Create(small, *made.backend);
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE(engine::InitializeParameters((*one)->loaded(), 1).ok());
    const double loss = run(**one, 0);
    EXPECT_EQ(run(**one, 1), loss);
    ASSERT_TRUE((*one)->loaded().KeepImages().ok());
    for (const uint64_t step : {2, 3}) EXPECT_EQ(run(**one, step), loss);
    const auto other = engine::Executor::Create(large, *made.backend);
    ASSERT_TRUE(other.ok()) << other.status();
    for (const uint64_t step : {4, 5, 6}) EXPECT_EQ(run(**one, step), loss) << "step " << step << ", after a Load";
    for (const uint64_t step : {0, 1}) run(**other, step, /*period=*/5);
    for (const uint64_t step : {7, 8, 9}) EXPECT_EQ(run(**one, step), loss) << "step " << step << ", after other steps";
  }
}

}  // namespace
}  // namespace colonnade::cuda
