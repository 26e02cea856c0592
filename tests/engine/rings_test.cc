// The rings of a collective: they share no link, and use all that there are.
#include "engine/simulator/rings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/simulator.h"
#include "engine/simulator/cost_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/on_a_switch.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

std::vector<int> First(int count) {
  std::vector<int> devices(count);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

// Eight devices on links of rate 1 and 2, six on each: the cube mesh of a DGX-1 (NVIDIA's white paper, 2017).
Machine CubeMesh() {
  Machine machine;
  machine.memory_bytes_per_sec.value = 1e9;
  for (int device : First(8)) machine.devices.push_back(absl::StrCat("gpu", device));
  const auto link = [&](int a, int b, double rate) {
    machine.links.push_back({.a = machine.devices[a], .b = machine.devices[b], .bytes_per_sec = {rate}, .latency_sec = {0}});
  };
  for (int four : {0, 4}) {
    link(four, four + 1, 1), link(four + 2, four + 3, 2);
    link(four, four + 2, 1), link(four + 1, four + 3, 1);
    link(four, four + 3, 2), link(four + 1, four + 2, 2);
  }
  machine.links.pop_back(), machine.links.pop_back();
  link(4, 7, 2), link(5, 6, 2);
  link(0, 4, 2), link(1, 5, 2), link(2, 6, 1), link(3, 7, 1);
  for (int device : First(8)) {
    machine.links.push_back({.a = machine.devices[device], .b = "host", .bytes_per_sec = {0.1}, .latency_sec = {0}});
  }
  return machine;
}

// How often a ring leads from one device to another.
std::map<std::pair<int, int>, int> HopsOf(const std::vector<std::vector<int>>& rings) {
  std::map<std::pair<int, int>, int> hops;
  for (const std::vector<int>& ring : rings) {
    for (size_t i = 0; i < ring.size(); ++i) ++hops[{ring[i], ring[(i + 1) % ring.size()]}];
  }
  return hops;
}

TEST(FindRings, LinkedDevicesUseEveryLinkInBothDirections) {
  const Machine machine = CubeMesh();
  const Routes routes = *Routes::Create(machine);
  const std::vector<std::vector<int>> rings = FindRings(routes, First(8));
  ASSERT_THAT(rings, SizeIs(6)) << "each device has six links of rate 1";
  for (const std::vector<int>& ring : rings) EXPECT_THAT(ring, UnorderedElementsAreArray(First(8)));
  const std::map<std::pair<int, int>, int> hops = HopsOf(rings);
  EXPECT_THAT(hops, SizeIs(2 * 16));
  for (const auto& [pair, times] : hops) EXPECT_EQ(times, routes.LinkBytesPerSec(pair.first, pair.second));
}

TEST(FindRings, SomeOfThemUseTheLinksBetweenThese) {
  const Routes routes = *Routes::Create(CubeMesh());
  EXPECT_THAT(FindRings(routes, {0, 1, 2, 3}), SizeIs(4));
  EXPECT_THAT(FindRings(routes, {0, 1, 4, 5}), SizeIs(2)) << "0 and 1 have one link";
  EXPECT_THAT(FindRings(routes, {0, 5, 2}), ElementsAre(routes.RingOf({0, 5, 2}))) << "0 and 5 have none";
  EXPECT_THAT(FindRings(routes, {0, 3}), ElementsAre(ElementsAre(0, 3)));
}

// Nodes of eight devices; each device has a slower way of its own to the other nodes.
Machine WithAdapters(int devices, double bytes_per_sec = 0.25e9) {
  Machine machine = InNodes(devices);
  machine.collectives = CollectiveAlgorithm::kFastest;
  std::erase_if(machine.links, [](const Link& link) { return link.b == "network"; });
  for (const std::string& device : machine.devices) {
    machine.links.push_back({.a = device, .b = "network", .bytes_per_sec = {bytes_per_sec}, .latency_sec = {2e-6}});
  }
  return machine;
}

TEST(FindRings, EachDeviceLeadsOutOfItsNodeOnce) {
  const Routes routes = *Routes::Create(WithAdapters(24));
  const std::vector<std::vector<int>> rings = FindRings(routes, First(24));
  ASSERT_THAT(rings, SizeIs(8));
  EXPECT_EQ(rings[0], routes.RingOf(First(24)));
  std::map<int, int> out;
  for (const auto& [pair, times] : HopsOf(rings)) {
    if (pair.first / 8 != pair.second / 8) out[pair.first] += times;
  }
  EXPECT_THAT(out, SizeIs(24));
  for (const auto& [device, times] : out) EXPECT_EQ(times, 1) << device;
}

TEST(FindRings, ThereIsOneWithinANodeAndWhereNodesAreUnequal) {
  const Routes routes = *Routes::Create(WithAdapters(24));
  for (int devices : {1, 2, 8, 12, 20}) EXPECT_THAT(FindRings(routes, First(devices)), SizeIs(1)) << devices;
}

TEST(NodesOf, AreThoseThroughWhichTheRingLeads) {
  const Routes routes = *Routes::Create(WithAdapters(16));
  EXPECT_THAT(NodesOf(routes, First(16)), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), SizeIs(8)));
  EXPECT_THAT(NodesOf(routes, First(8)), SizeIs(0)) << "one node";
  EXPECT_THAT(NodesOf(routes, First(12)), SizeIs(0)) << "of unequal size";
}

double AllReduceSecondsOf(const Machine& machine, int devices, double bytes) {
  return CostModel(machine, devices)
      .CollectiveSeconds(*Routes::Create(machine), program::CollectiveKind::kAllReduce, devices, bytes);
}

// S bytes in 64 nodes of 8: into parts over 7 hops of 2 us, an eighth on each adapter in a tree of 64, whose 6 levels take 4
// us each way, and 7 hops to the whole. All are at work at once: 7/8 S into parts and out of them at 1 GB/s, 2/8 S at the
// adapter's rate. A ring between the nodes saves a 64th of what adapters move and has 63 hops each way.
TEST(CollectiveSeconds, OfManyNodesIsInEachNodeAndBetweenThemAtOnce) {
  for (const double adapter : {0.25e9, 0.1e9}) {
    const Machine machine = WithAdapters(512, adapter);
    const double latencies = 2 * 7 * 2e-6 + 2 * 6 * 4e-6, bytes = 1e6;
    EXPECT_NEAR(AllReduceSecondsOf(machine, 512, bytes), latencies + std::max(2 * 7.0 / 8 / 1e9, 2.0 / 8 / adapter) * bytes,
                1e-9);
  }
  const double bytes = 4e8, latencies = 2 * 7 * 2e-6 + 2 * 63 * 4e-6;
  EXPECT_NEAR(AllReduceSecondsOf(WithAdapters(512, 0.1e9), 512, bytes), latencies + 2 * 63.0 / 64 / 8 / 0.1e9 * bytes, 1e-9);
}

TEST(Simulate, AnAllReduceInNodesTakesWhatTheCostModelSays) {
  for (const double adapter : {0.25e9, 0.1e9}) {
    const Machine machine = WithAdapters(32, adapter);
    program::Builder builder("case", program::Mode::kTrain, 1, program::DType::kF32, {{"data", 32}});
    std::vector<program::Member> members;
    for (int d : First(32)) {
      members.push_back({{builder.Accumulate(builder.AddBuffer(d, "x", program::DType::kF32, {250'000}))}, {}});
    }
    builder.AddCollective(builder.AddGroup(First(32)), {.kind = program::CollectiveKind::kAllReduce}, std::move(members),
                          program::Lane::kComm, {"sum"});
    const absl::StatusOr<Simulation> simulation = Simulate(std::move(builder).Build(), machine);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_NEAR(absl::ToDoubleSeconds(simulation->first_step), AllReduceSecondsOf(machine, 32, 1e6), 1e-9);
  }
}

TEST(SchedulesFor, AGroupOfOneMovesNothing) {
  using enum CollectiveAlgorithm;
  Machine machine = OnASwitch(2);
  machine.server = "switch";
  machine.switch_bytes_per_sec.value = 1e9;
  for (CollectiveAlgorithm algorithm : {kRing, kTree, kDirect, kMaster, kServer, kFastest}) {
    machine.collectives = algorithm;
    const CostModel cost(machine, 2);
    for (const CostModel::CollectiveSchedule& schedule :
         cost.SchedulesFor(*Routes::Create(machine), program::CollectiveKind::kAllReduce, {1}, 0)) {
      EXPECT_EQ(schedule.Seconds(1e9), 0);
    }
  }
}

// 2 (8 - 1) / 8 of the bytes over six links of rate 1.
TEST(CollectiveSeconds, OfRingsBesideEachOtherIsThatOfAllLinks) {
  Machine machine = CubeMesh();
  machine.launch_sec.value = 0;
  machine.collectives = CollectiveAlgorithm::kRing;
  EXPECT_NEAR(AllReduceSecondsOf(machine, 8, 48), 1.75 * 48 / 6, 1e-9);
  machine.copy_engines = 2;
  EXPECT_NEAR(AllReduceSecondsOf(machine, 8, 48), 1.75 * 48 / 2, 1e-9) << "an engine serves one ring after the other";
}

}  // namespace
}  // namespace colonnade::engine
