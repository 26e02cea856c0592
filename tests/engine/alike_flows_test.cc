// Flows that were joined end when those would that they stand for, whatever runs beside them.
#include "engine/simulator/alike_flows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

FlowOnRoute Flow(const std::vector<int>& resources, double bytes = 1, double most = 1e9) {
  FlowOnRoute flow{.uses = {}, .engines = {}, .max_rate = most, .bytes = bytes};
  for (int resource : resources) flow.uses.push_back({resource});
  return flow;
}

struct Start {
  size_t set;
  double at, bytes;
};

// When the last flow of each start has ended.
std::vector<double> EndsOf(const std::vector<FlowSet>& sets, const std::vector<double>& capacities,
                           const std::vector<Start>& starts) {
  FairShare share(capacities);
  std::vector<double> ends(starts.size(), 0);
  size_t next = 0, left = 0;
  double now = 0;
  while (next < starts.size() || left > 0) {
    const double end = left > 0 ? share.NextEnd() : 1e300;
    if (next < starts.size() && starts[next].at <= end) {
      now = std::max(now, starts[next].at);
      for (const FlowOnRoute& flow : sets[starts[next].set].flows) {
        share.Start(now, static_cast<int>(next), flow.bytes * starts[next].bytes, flow.max_rate, flow.uses);
        ++left;
      }
      ++next;
      continue;
    }
    now = std::max(now, end);
    ends[share.EndNext(now)] = now;
    --left;
  }
  return ends;
}

void ExpectTheSameEnds(std::vector<FlowSet> sets, std::vector<double> capacities, const std::vector<Start>& starts) {
  const std::vector<double> before = EndsOf(sets, capacities, starts);
  JoinAlikeFlows(sets, capacities);
  const std::vector<double> after = EndsOf(sets, capacities, starts);
  for (size_t i = 0; i < starts.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-9 * before[i]) << "start " << i;
}

// Eight devices in two nodes: resources 0 to 7 of devices, 8 and 9 of nodes.
std::vector<double> TwoNodes(double device, double node) {
  std::vector<double> capacities(8, device);
  capacities.insert(capacities.end(), {node, node});
  return capacities;
}
std::vector<int> Between(int from, int to) {
  if (from / 4 == to / 4) return {from, to};
  return {from, 8 + from / 4, to};
}

FlowSet Ring(const std::vector<int>& devices, int lane) {
  FlowSet set{.flows = {}, .lanes = {lane}};
  for (size_t i = 0; i < devices.size(); ++i) {
    set.flows.push_back(Flow(Between(devices[i], devices[(i + 1) % devices.size()])));
  }
  return set;
}

TEST(JoinAlikeFlows, JoinsARingOfNodesToWhatStaysInsideAndWhatLeaves) {
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  std::vector<FlowSet> sets = {Ring(all, 0), Ring(all, 1)};  // which run beside each other
  std::vector<double> capacities = TwoNodes(10, 4);
  JoinAlikeFlows(sets, capacities);
  // 0→1, 1→2, 2→3 and 3→4 differ in what stands on their devices beside them.
  EXPECT_LE(sets[0].flows.size(), 4u);
  EXPECT_LE(capacities.size(), 5u);
  ExpectTheSameEnds({Ring(all, 0), Ring(all, 1)}, TwoNodes(10, 4), {{0, 0, 8}, {1, 0.5, 3}, {0, 7, 1}});
}

TEST(JoinAlikeFlows, WhatRunsAloneIsOneFlow) {
  std::vector<FlowSet> sets = {Ring({0, 1, 4, 5}, 0), Ring({0, 1, 2}, 0)};  // of one lane
  std::vector<double> capacities = TwoNodes(10, 4);
  JoinAlikeFlows(sets, capacities);
  EXPECT_EQ(sets[0].flows.size(), 1u);
  EXPECT_EQ(sets[1].flows.size(), 1u);
  ExpectTheSameEnds({Ring({0, 1, 4, 5}, 0), Ring({0, 1, 2}, 0)}, TwoNodes(10, 4), {{0, 0, 8}, {1, 10, 3}});
}

TEST(JoinAlikeFlows, LinksThatNothingFillsDivideNothing) {
  // Of 100 each way, where flows get no more than 3: only the nodes' links limit.
  FlowSet slow{.flows = {}, .lanes = {0}}, other{.flows = {}, .lanes = {1}};
  for (int d = 0; d < 4; ++d) {
    slow.flows.push_back(Flow(Between(d, 4 + (d * 3) % 4), 1, 3));
    other.flows.push_back(Flow(Between(d, 7 - d), 1, 3));
  }
  std::vector<FlowSet> sets = {slow, other};
  std::vector<double> capacities = TwoNodes(100, 4);
  JoinAlikeFlows(sets, capacities);
  EXPECT_EQ(sets[0].flows.size(), 1u);
  ASSERT_EQ(sets[0].flows[0].uses.size(), 1u);
  EXPECT_EQ(sets[0].flows[0].uses[0].flows, 4);
  ExpectTheSameEnds({slow, other}, TwoNodes(100, 4), {{0, 0, 8}, {1, 0.5, 3}});
}

// What takes no lane may run beside itself, what takes others than its neighbour beside that.
TEST(JoinAlikeFlows, WhatMayRunBesideOthersIsNotAlone) {
  FlowSet beside_itself = Ring({0, 1, 4, 5}, 0);
  beside_itself.lanes.clear();
  ExpectTheSameEnds({beside_itself}, TwoNodes(10, 4), {{0, 0, 8}, {0, 0.5, 8}});
  FlowSet wide = Ring({0, 1, 4, 5}, 0), first = Ring({0, 1}, 0), second = Ring({4, 1}, 1);
  wide.lanes = {0, 1};
  ExpectTheSameEnds({wide, first, second}, TwoNodes(10, 4), {{1, 0, 8}, {2, 0.5, 8}, {0, 20, 3}});
  std::vector<FlowSet> sets = {wide, first, second};
  std::vector<double> capacities = TwoNodes(10, 4);
  JoinAlikeFlows(sets, capacities);
  EXPECT_GT(sets[1].flows.size() + sets[2].flows.size(), 2u) << "they share device 1";
}

TEST(JoinAlikeFlows, WhatTakesALaneOfEachNeighbourRunsAlone) {
  FlowSet wide = Ring({0, 1, 4, 5}, 0), first = Ring({0, 1}, 0), second = Ring({4, 5}, 1);
  wide.lanes = {0, 1};
  std::vector<FlowSet> sets = {wide, first, second};
  std::vector<double> capacities = TwoNodes(10, 4);
  JoinAlikeFlows(sets, capacities);
  for (const FlowSet& set : sets) EXPECT_EQ(set.flows.size(), 1u);
}

TEST(JoinAlikeFlows, OfRandomFlowsChangesNoEnd) {
  std::mt19937_64 random(5);
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  int joined = 0;
  for (int draw = 0; draw < 300; ++draw) {
    std::vector<double> capacities;
    for (int r = 0; r < 6; ++r) capacities.push_back(1 + pick(3));
    std::vector<FlowSet> sets;
    size_t flows = 0;
    for (int s = 0; s < 3; ++s) {
      FlowSet& set = sets.emplace_back(FlowSet{.flows = {}, .lanes = {pick(2)}});
      for (int f = 1 + pick(6); f > 0; --f) {
        std::vector<int> resources = {pick(6)};
        if (const int other = pick(6); other != resources[0]) resources.push_back(other);
        set.flows.push_back(Flow(resources, 1 + pick(2), 1 + pick(3)));
      }
      flows += set.flows.size();
    }
    // On a lane one set runs at a time: those of a lane start when the one before has surely ended.
    std::vector<Start> starts;
    double free_at[2] = {0, 0};
    for (int i = 0; i < 6; ++i) {
      const auto set = static_cast<size_t>(pick(3));
      double& at = free_at[*sets[set].lanes.begin()];
      starts.push_back({set, at, 1.0 + pick(4)});
      at += 100 + pick(7);
    }
    std::sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.at < b.at; });
    ExpectTheSameEnds(sets, capacities, starts);
    JoinAlikeFlows(sets, capacities);
    for (const FlowSet& set : sets) flows -= set.flows.size();
    joined += flows > 0;
  }
  EXPECT_GT(joined, 100);
}

}  // namespace
}  // namespace colonnade::engine
