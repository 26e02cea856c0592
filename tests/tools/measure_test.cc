// What is counted while steps are timed.
#include "tools/measure.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(StepMeter, TellsItsProgressFromTheFirstStepOn) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("single", graph, {.devices = 1, .global_batch = 4});
  const auto meter = StepMeter::Create(graph, plan, {.global_batch = 4});
  ASSERT_TRUE(meter.ok()) << meter.status();
  std::vector<std::pair<int64_t, int64_t>> told;
  const absl::Status run =
      (*meter)->Run(2, absl::ZeroDuration(), [&](int64_t done, int64_t all) { told.emplace_back(done, all); });
  ASSERT_TRUE(run.ok()) << run;
  EXPECT_THAT(told, ElementsAre(Pair(0, 2), Pair(1, 2), Pair(2, 2)));

  // How many a time is enough for is not known before the first.
  told.clear();
  const absl::Status timed =
      (*meter)->Run(2, absl::Milliseconds(50), [&](int64_t done, int64_t all) { told.emplace_back(done, all); });
  ASSERT_TRUE(timed.ok()) << timed;
  EXPECT_EQ(told.front(), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_GE(told.at(1).second, 2);
}

}  // namespace
}  // namespace colonnade::tools
