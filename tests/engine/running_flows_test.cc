// Flows over links that are shared, and over copy engines that are not, by hand.

#include "engine/simulator/running_flows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
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

// The jobs of flows in the order in which they end, where after each end all that wait are tried as they came. None shares
// a link.
std::vector<int> EndsByTryingAll(const std::vector<FlowOnRoute>& flows, int engines) {
  std::vector<int> ended;
  std::vector<bool> is_taken(engines), has_started(flows.size());
  std::map<double, int> running;  // by the time of the end
  double now = 0;
  while (ended.size() < flows.size()) {
    for (size_t job = 0; job < flows.size(); ++job) {
      const auto& needed = flows[job].engines;
      if (has_started[job] || std::any_of(needed.begin(), needed.end(), [&](int engine) { return is_taken[engine]; }))
        continue;
      for (int engine : needed) is_taken[engine] = true;
      has_started[job] = true;
      running.emplace(now + flows[job].bytes, static_cast<int>(job));
    }
    const auto next = running.extract(running.begin());
    now = next.key();
    ended.push_back(next.mapped());
    for (int engine : flows[next.mapped()].engines) is_taken[engine] = false;
  }
  return ended;
}

std::vector<int> EndsOf(const std::vector<FlowOnRoute>& flows, int engines) {
  std::vector<std::vector<FlowOnRoute>> each;  // what a job's Start takes, which outlives it
  for (const FlowOnRoute& flow : flows) each.push_back({flow});
  RunningFlows running({/*bytes per second=*/1e9}, engines);
  for (size_t job = 0; job < flows.size(); ++job) running.Start(0, static_cast<int>(job), each[job], /*bytes=*/1);
  std::vector<int> ended;
  while (running.NextEnd() < kNever) ended.push_back(running.EndNext(running.NextEnd()));
  return ended;
}

TEST(RunningFlows, ThoseThatWaitForSeveralEnginesStartAsIfAllWereTriedInTurn) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int engines = 1 + static_cast<int>(random() % 6);
    std::vector<FlowOnRoute> flows(1 + random() % 40);
    for (FlowOnRoute& flow : flows) {
      flow = FlowThrough({}, /*most=*/1);
      flow.bytes = std::uniform_real_distribution<>(1, 2)(random);
      for (int engine = 0; engine < engines; ++engine) {
        if (random() % 3 == 0) flow.engines.push_back(engine);
      }
    }
    ASSERT_EQ(EndsOf(flows, engines), EndsByTryingAll(flows, engines)) << "round " << round;
  }
}

}  // namespace
}  // namespace colonnade::engine
