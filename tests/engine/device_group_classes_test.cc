#include "engine/simulator/device_group_classes.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/on_a_switch.h"

namespace colonnade::engine {
namespace {

class Groups {
 public:
  explicit Groups(const Machine& machine) : routes_(*Routes::Create(machine)), classes_(machine, routes_) {}

  bool AreAlike(const std::vector<int>& a, const std::vector<int>& b) { return classes_.ClassOf(a) == classes_.ClassOf(b); }

 private:
  const Routes routes_;
  DeviceGroupClasses classes_;
};

TEST(DeviceGroupClasses, GroupsDifferInHowManyLieOnOneNode) {
  Groups groups(InNodes(24));
  EXPECT_TRUE(groups.AreAlike({0, 1}, {2, 7}));
  EXPECT_TRUE(groups.AreAlike({0, 1}, {8, 9}));
  EXPECT_FALSE(groups.AreAlike({0, 1}, {7, 8}));
  EXPECT_TRUE(groups.AreAlike({0, 8}, {17, 3}));
  EXPECT_TRUE(groups.AreAlike({0, 1, 8}, {12, 10, 2}));
  EXPECT_FALSE(groups.AreAlike({0, 1, 8}, {0, 8, 9}));
  EXPECT_FALSE(groups.AreAlike({0, 1}, {0, 1, 2}));
  EXPECT_FALSE(groups.AreAlike({0, 1, 2, 8}, {0, 1, 8, 2})) << "in another order";
}

TEST(DeviceGroupClasses, DifferInTheSpeedOfADevice) {
  Machine machine = OnASwitch(4);
  machine.slower = {{"d3", 1.5}};
  Groups groups(machine);
  EXPECT_TRUE(groups.AreAlike({0}, {1}));
  EXPECT_FALSE(groups.AreAlike({0}, {3}));
  EXPECT_FALSE(groups.AreAlike({0, 3}, {0, 1}));
  EXPECT_FALSE(groups.AreAlike({0, 3}, {3, 0}));
}

TEST(DeviceGroupClasses, DifferInTheWayToTheHost) {
  Machine machine = OnASwitch(4);
  for (int d = 0; d < 4; ++d) {
    const std::string& device = machine.devices[d];
    const auto way = Link::Duplex::kOneWay;
    machine.links.push_back({.a = device, .b = "host", .bytes_per_sec = {d == 2 ? 2e9 : 1e9}, .duplex = way});
    machine.links.push_back({.a = "host", .b = device, .bytes_per_sec = {d == 3 ? 2e9 : 1e9}, .duplex = way});
  }
  Groups groups(machine);
  EXPECT_TRUE(groups.AreAlike({0}, {1}));
  EXPECT_FALSE(groups.AreAlike({0}, {2})) << "to it";
  EXPECT_FALSE(groups.AreAlike({0}, {3})) << "from it";
}

TEST(DeviceGroupClasses, DifferInRateAndLatency) {
  Machine machine = OnASwitch(6);
  for (int d : {2, 3}) machine.links[d].bytes_per_sec.value = 2e9;
  for (int d : {4, 5}) machine.links[d].latency_sec.value = 1e-6;
  Groups groups(machine);
  EXPECT_FALSE(groups.AreAlike({0, 1}, {2, 3}));
  EXPECT_FALSE(groups.AreAlike({0, 1}, {4, 5}));
}

TEST(DeviceGroupClasses, DifferInTheRateBetweenNodes) {
  Machine machine = InNodes(24);
  for (Link& link : machine.links) {
    if (link.a == "node2" && link.b == "network") link.bytes_per_sec.value = 5e8;
  }
  Groups groups(machine);
  EXPECT_TRUE(groups.AreAlike({0, 1}, {16, 17}));
  EXPECT_FALSE(groups.AreAlike({0, 8}, {0, 16}));
}

// Both ways of a half-duplex link share its rate, which a transfer alone does not tell.
TEST(DeviceGroupClasses, DifferInWhatOneGroupShares) {
  Machine machine = OnASwitch(4);
  for (int d : {2, 3}) machine.links[d].duplex = Link::Duplex::kHalf;
  Groups groups(machine);
  EXPECT_FALSE(groups.AreAlike({0, 1}, {2, 3}));
}

}  // namespace
}  // namespace colonnade::engine
