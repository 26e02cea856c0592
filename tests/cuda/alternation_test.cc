// Programs that take turns on the CUDA backend, whose calls the host runs at once: what they share, moves and forgets, and
// copies of the state beside steps. In which order streams may run them: order_test.cc.
#include "tests/engine/alternation.h"

#include "absl/strings/str_cat.h"
#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "host_calls.h"

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

}  // namespace
}  // namespace colonnade::cuda
