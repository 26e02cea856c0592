// What is proposed where a plan does not fit, by what each plan is said to need; whose memory a prediction states.
#include "tools/planning.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/about.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tools/calibration.h"
#include "tools/machines.h"
#include "tools/measure.h"
#include "tools/memory_fit.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kLargeBatch = 3 << 10;

class NearestPlan : public ::testing::Test {
 protected:
  // On a machine of `most` devices; each plan needs bytes_of(devices, whether it is sharded).
  std::optional<FittingPlan> Find(int devices, int most, int64_t memory_bytes, int64_t (*bytes_of)(int, bool)) {
    calls_.clear();
    return NearestPlanThatFits(graph_, kLargeBatch, devices, most, memory_bytes,
                               [&](const partition::Plan& plan) -> absl::StatusOr<int64_t> {
                                 ++calls_[plan.mesh.device_count()];
                                 return bytes_of(plan.mesh.device_count(), plan.reduction == partition::Reduction::kSharded);
                               });
  }
  const layers::LayerGraph graph_ = *models::BuildModel("two_column", {});
  std::map<int, int> calls_;  // by number of devices
};

int64_t Shared(int devices, bool /*sharded*/) { return 6400 / devices; }
int64_t SharedIfSharded(int devices, bool sharded) { return sharded ? 6400 / devices : 6400; }
int64_t Endless(int /*devices*/, bool /*sharded*/) { return 1 << 30; }

TEST_F(NearestPlan, IsTheFirstNamedOneOnTwiceAsManyDevicesEachTime) {
  const std::optional<FittingPlan> found = Find(2, 64, 1000, Shared);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.name, "data");
  EXPECT_EQ(found->plan.mesh.device_count(), 8);
  EXPECT_EQ(found->plan.reduction, partition::Reduction::kAllReduce);
  EXPECT_EQ(found->peak_bytes, 800);
}

TEST_F(NearestPlan, IsOnAllDevicesWhereNoPowerOfTwoFits) {
  const std::optional<FittingPlan> found = Find(1, 6, 1100, Shared);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.mesh.device_count(), 6);
}

TEST_F(NearestPlan, IsShardedWhereNoOtherFits) {
  const std::optional<FittingPlan> found = Find(1, 64, 1000, SharedIfSharded);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.mesh.device_count(), 8);
  EXPECT_EQ(found->plan.reduction, partition::Reduction::kSharded);
}

// Of "single" or the four others, and of two more where one fits.
TEST_F(NearestPlan, LooksAtFewPlansWhateverTheMachine) {
  EXPECT_FALSE(Find(1, 1024, 1000, Endless).has_value());
  EXPECT_EQ(calls_.size(), 11u);
  for (const auto& [devices, calls] : calls_) EXPECT_LE(calls, devices == 1 ? 5 : 4) << devices;
  ASSERT_TRUE(Find(8, 1024, 1000, Shared).has_value());
  EXPECT_THAT(calls_, ElementsAre(Pair(8, 2)));
}

int64_t TotalBytes(const absl::StatusOr<std::vector<engine::DeviceMemory>>& memory) {
  int64_t bytes = 0;
  for (const engine::DeviceMemory& device : *memory) bytes += device.total_bytes();
  return bytes;
}

// Steps of many micro-batches are judged by that of three, to whose memory the images of the others are added: without them
// a third of these would lack.
TEST(SearchPlansOn, TheMemoryOfManyMicroBatchesIsThatOfALoweredStep) {
  const engine::Machine machine = *OpenMachine("dgx1-v100");
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  const partition::LowerOptions lower{
      .global_batch = 12 * 64, .micro_batches = 12, .pixels = program::PixelScaling{.scale = {1}, .shift = {0}}};
  const absl::StatusOr<std::vector<partition::Candidate>> found = SearchPlansOn(machine, graph, lower, 2);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const partition::Candidate& candidate : *found) {
    const absl::StatusOr<Predicted> whole = Predict(machine, graph, candidate.plan, lower);
    ASSERT_TRUE(whole.ok()) << whole.status();
    int64_t most = 0;
    for (const engine::SimulatedDevice& device : whole->simulation.devices) most = std::max(most, device.peak_memory_bytes);
    EXPECT_NEAR(static_cast<double>(candidate.judgement.peak_memory_bytes), static_cast<double>(most),
                0.08 * static_cast<double>(most))
        << candidate.plan.name;
  }
}

TEST(Predict, StatesTheMemoryThatTheKernelsOfTheProfileTake) {
  if (!cpu::HasWinograd()) GTEST_SKIP() << "this processor has no Winograd kernels";
  const layers::LayerGraph graph = *models::BuildModel("resnet20", {});
  const partition::Plan plan = *partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 32});
  const partition::LowerOptions lower{.global_batch = 32};
  const program::Program program = *partition::Lower(graph, plan, lower);
  const int64_t direct = TotalBytes(PredictCpuMemory(program)),
                winograd = TotalBytes(PredictCpuMemory(program, cpu::CpuOptions::Kernels::kWinograd));
  ASSERT_NE(direct, winograd);
  engine::Machine machine = *OpenMachine("cpu-2core");
  EXPECT_EQ(Predict(machine, graph, plan, lower)->simulation.devices[0].peak_memory_bytes, direct);
  machine.kernels = "winograd";
  EXPECT_EQ(Predict(machine, graph, plan, lower)->simulation.devices[0].peak_memory_bytes, winograd);
  // What is calibrated runs those kernels.
  for (const auto& [kernels, bytes] : {std::pair("onednn", direct), std::pair("winograd", winograd)}) {
    const CalibrationTarget target = CpuTarget(1, {.kernels = kernels});
    EXPECT_EQ(target.machine.kernels, kernels);
    EXPECT_EQ(TotalBytes((*target.make_backend(1))->MemoryOf(program)), bytes) << kernels;
  }
}

}  // namespace
}  // namespace colonnade::tools
