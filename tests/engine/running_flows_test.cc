// Flows over links that are shared, and over copy engines that are not, by hand.

#include "engine/simulator/running_flows.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of one byte for each byte of its leg, over link 0.
FlowOnRoute FlowThrough(std::vector<int> engines, double most = kNever) {
  FlowOnRoute flow{.uses = {{.resource = 0}}, .engines = {}, .max_rate = most, .bytes = 1};
  flow.engines.assign(engines.begin(), engines.end());
  return flow;
}

TEST(RunningFlows, ShareALinkWhereNoEngineKeepsThemApart) {
  RunningFlows running({/*bytes per second=*/10}, /*engines=*/0);
  const std::vector<FlowOnRoute> flows = {FlowThrough({})};
  EXPECT_EQ(running.NextEnd(), kNever);
  running.Start(0, /*job=*/7, flows, /*bytes=*/10);
  running.Start(0, /*job=*/8, flows, /*bytes=*/20);
  EXPECT_EQ(running.NextEnd(), 2) << "each has half of the link";
  EXPECT_EQ(running.EndNext(2), 7);
  EXPECT_EQ(running.NextEnd(), 3) << "the other has all of it";
  EXPECT_EQ(running.EndNext(3), 8);
  EXPECT_EQ(running.NextEnd(), kNever);
}

TEST(RunningFlows, AnEngineServesOneAfterTheOtherInTheOrderInWhichTheyCame) {
  RunningFlows running({/*bytes per second=*/10}, /*engines=*/2);
  const std::vector<FlowOnRoute> both = {FlowThrough({0, 1}, /*most=*/5)}, first = {FlowThrough({0}, /*most=*/5)},
                                 second = {FlowThrough({1}, /*most=*/5)};
  running.Start(0, /*job=*/1, first, /*bytes=*/5);
  running.Start(0, /*job=*/2, both, /*bytes=*/5);
  running.Start(0, /*job=*/3, second, /*bytes=*/10);  // overtakes: its engine is free
  EXPECT_EQ(running.NextEnd(), 1);
  EXPECT_EQ(running.EndNext(1), 1);
  EXPECT_EQ(running.NextEnd(), 2) << "job 2 waits for engine 1, too";
  EXPECT_EQ(running.EndNext(2), 3);
  EXPECT_EQ(running.NextEnd(), 3);
  EXPECT_EQ(running.EndNext(3), 2);
  EXPECT_EQ(running.NextEnd(), kNever);
}

TEST(RunningFlows, TheFlowsOfAJobEndOneByOne) {
  RunningFlows running({/*bytes per second=*/10}, /*engines=*/1);
  const std::vector<FlowOnRoute> flows = {FlowThrough({0}), FlowThrough({0})};
  running.Start(0, /*job=*/1, flows, /*bytes=*/10);
  EXPECT_EQ(running.EndNext(running.NextEnd()), 1);
  EXPECT_EQ(running.NextEnd(), 2);
  EXPECT_EQ(running.EndNext(2), 1);
}

}  // namespace
}  // namespace colonnade::engine
