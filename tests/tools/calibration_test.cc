#include "tools/calibration.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"

namespace colonnade::tools {
namespace {

TEST(CalibrationBatches, SplitOverTheDevicesOfEachPlan) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  for (int most = 1; most <= 16; ++most) {
    for (const CalibrationPlan& plan : CalibrationPlans(most)) {
      if (plan.name == "model") continue;  // which splits channels
      for (int64_t asked : {1, 64, 1000}) {
        for (int64_t batch : CalibrationBatches(asked, most, plan.devices)) {
          EXPECT_TRUE(partition::NamedPlan(plan.name, graph, {.devices = plan.devices, .global_batch = batch}).ok())
              << plan.name << " on " << plan.devices << " of " << most << ", batch " << batch;
        }
      }
    }
  }
}

TEST(CalibrationBatches, SurroundTheOneThatIsAskedForAndAreAlikeForAllPlans) {
  for (int devices : {1, 2, 4, 8}) EXPECT_EQ(CalibrationBatches(64, 8, devices), (std::vector<int64_t>{32, 96}));
  EXPECT_EQ(CalibrationBatches(64, 8, 3), (std::vector<int64_t>{36, 96}));
  EXPECT_EQ(CalibrationBatches(64, 8, 5), (std::vector<int64_t>{40, 100}));
  EXPECT_EQ(CalibrationBatches(1, 8, 8), (std::vector<int64_t>{32, 64}));
}

}  // namespace
}  // namespace colonnade::tools
