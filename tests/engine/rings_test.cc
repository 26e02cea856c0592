// The rings of a collective: they share no link, and use all that there are.
#include "engine/rings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cost_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

TEST(RingsOf, LinkedDevicesUseEveryLinkInBothDirections) {
  const Machine machine = CubeMesh();
  const Routes routes = *Routes::Create(machine);
  const std::vector<std::vector<int>> rings = RingsOf(routes, First(8));
  ASSERT_THAT(rings, SizeIs(6)) << "each device has six links of rate 1";
  for (const std::vector<int>& ring : rings) EXPECT_THAT(ring, UnorderedElementsAreArray(First(8)));
  const std::map<std::pair<int, int>, int> hops = HopsOf(rings);
  EXPECT_THAT(hops, SizeIs(2 * 16));
  for (const auto& [pair, times] : hops) EXPECT_EQ(times, routes.LinkBytesPerSec(pair.first, pair.second));
}

TEST(RingsOf, SomeOfThemUseTheLinksBetweenThese) {
  const Routes routes = *Routes::Create(CubeMesh());
  EXPECT_THAT(RingsOf(routes, {0, 1, 2, 3}), SizeIs(4));
  EXPECT_THAT(RingsOf(routes, {0, 1, 4, 5}), SizeIs(2)) << "0 and 1 have one link";
  EXPECT_THAT(RingsOf(routes, {0, 5, 2}), ElementsAre(routes.RingOf({0, 5, 2}))) << "0 and 5 have none";
  EXPECT_THAT(RingsOf(routes, {0, 3}), ElementsAre(ElementsAre(0, 3)));
}

// Nodes of eight devices; each device has a slower way of its own to the other nodes.
Machine WithAdapters(int devices) {
  Machine machine = InNodes(devices);
  std::erase_if(machine.links, [](const Link& link) { return link.b == "network"; });
  for (const std::string& device : machine.devices) {
    machine.links.push_back({.a = device, .b = "network", .bytes_per_sec = {0.25e9}, .latency_sec = {2e-6}});
  }
  return machine;
}

TEST(RingsOf, EachDeviceLeadsOutOfItsNodeOnce) {
  const Routes routes = *Routes::Create(WithAdapters(24));
  const std::vector<std::vector<int>> rings = RingsOf(routes, First(24));
  ASSERT_THAT(rings, SizeIs(8));
  EXPECT_EQ(rings[0], routes.RingOf(First(24)));
  std::map<int, int> out;
  for (const auto& [pair, times] : HopsOf(rings)) {
    if (pair.first / 8 != pair.second / 8) out[pair.first] += times;
  }
  EXPECT_THAT(out, SizeIs(24));
  for (const auto& [device, times] : out) EXPECT_EQ(times, 1) << device;
}

TEST(RingsOf, ThereIsOneWithinANodeAndWhereNodesAreUnequal) {
  const Routes routes = *Routes::Create(WithAdapters(24));
  for (int devices : {1, 2, 8, 12, 20}) EXPECT_THAT(RingsOf(routes, First(devices)), SizeIs(1)) << devices;
}

double AllReduceSeconds(const Machine& machine, double bytes) {
  return CostModel(machine, 8).CollectiveSeconds(*Routes::Create(machine), program::CollectiveKind::kAllReduce, 8, bytes);
}

TEST(NodesOf, AreThoseThroughWhichTheRingLeads) {
  const Routes routes = *Routes::Create(WithAdapters(16));
  EXPECT_THAT(NodesOf(routes, First(16)), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), SizeIs(8)));
  EXPECT_THAT(NodesOf(routes, First(8)), SizeIs(0)) << "one node";
  EXPECT_THAT(NodesOf(routes, First(12)), SizeIs(0)) << "of unequal size";
}

// S bytes in 64 nodes of 8: 7/8 S into parts and out of them at 1 GB/s, over 7 hops of 2 us. Between nodes each adapter of
// 0.25 GB/s has an eighth: of few bytes in a tree of 64, whose 6 levels take 4 us each way and in which a device sends to a
// parent and to two children, of more in a ring.
TEST(CollectiveSeconds, OfManyNodesIsInEachNodeAndBetweenThem) {
  Machine machine = WithAdapters(512);
  machine.collectives = CollectiveAlgorithm::kFastest;
  const Routes routes = *Routes::Create(machine);
  const auto seconds = [&](double bytes) {
    return CostModel(machine, 512).CollectiveSeconds(routes, program::CollectiveKind::kAllReduce, 512, bytes);
  };
  const auto inside = [](double bytes) { return 2 * (7.0 / 8 * bytes / 1e9 + 7 * 2e-6); };
  EXPECT_NEAR(seconds(1e5), inside(1e5) + 2 * 6 * 4e-6 + 3 * 1e5 / 8 / 0.25e9, 1e-9);
  EXPECT_NEAR(seconds(1e6), inside(1e6) + 2 * 63 * 4e-6 + 2 * 63.0 / 64 * 1e6 / 8 / 0.25e9, 1e-9);
}

TEST(WaysOf, AGroupOfOneMovesNothing) {
  using enum CollectiveAlgorithm;
  Machine machine = OnASwitch(2);
  machine.server = "switch";
  machine.switch_bytes_per_sec.value = 1e9;
  for (CollectiveAlgorithm algorithm : {kRing, kTree, kDirect, kMaster, kServer, kFastest}) {
    machine.collectives = algorithm;
    const CostModel cost(machine, 2);
    for (const CostModel::Way& way : cost.WaysOf(*Routes::Create(machine), program::CollectiveKind::kAllReduce, {1}, 0)) {
      EXPECT_EQ(way.Seconds(1e9), 0);
    }
  }
}

// 2 (8 - 1) / 8 of the bytes over six links of rate 1.
TEST(CollectiveSeconds, OfRingsBesideEachOtherIsThatOfAllLinks) {
  Machine machine = CubeMesh();
  machine.launch_sec.value = 0;
  machine.collectives = CollectiveAlgorithm::kRing;
  EXPECT_NEAR(AllReduceSeconds(machine, 48), 1.75 * 48 / 6, 1e-9);
  machine.copy_engines = 2;
  EXPECT_NEAR(AllReduceSeconds(machine, 48), 1.75 * 48 / 2, 1e-9) << "an engine serves one ring after the other";
}

}  // namespace
}  // namespace colonnade::engine
