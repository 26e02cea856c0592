// Routes of devices that are alike, which are found for their class.
#include "engine/simulator/routes.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/on_a_switch.h"

namespace colonnade::engine {
namespace {

// A link to a node of its own makes each device like no other.
Machine WithoutClasses(Machine machine) {
  for (const std::string& device : machine.devices) {
    machine.links.push_back({.a = device, .b = absl::StrCat("end of ", device), .bytes_per_sec = {1}, .latency_sec = {1}});
  }
  return machine;
}

Machine WithHost(Machine machine) {
  for (int node = 0; node < machine.device_count() / 8; ++node) {
    machine.links.push_back({.a = "host",
                             .b = absl::StrCat("node", node),
                             .bytes_per_sec = {3e9},
                             .latency_sec = {2e-6},
                             .duplex = Link::Duplex::kHalf});
  }
  return machine;
}

void ExpectEqual(const Route& a, const Route& b, const std::string& what) {
  EXPECT_EQ(a.resources, b.resources) << what;
  EXPECT_EQ(a.engines, b.engines) << what;
  EXPECT_EQ(a.latency_sec, b.latency_sec) << what;
  EXPECT_EQ(a.bytes_per_sec, b.bytes_per_sec) << what;
}

void ExpectThoseOfASearchForEachDevice(const Machine& machine) {
  const Routes routes = Routes::Create(machine).value(), apart = Routes::Create(WithoutClasses(machine)).value();
  std::vector<int> backwards;
  for (int from = 0; from < machine.device_count(); ++from) {
    backwards.insert(backwards.begin(), from);
    for (int to = 0; to < machine.device_count(); ++to) {
      if (from == to) continue;
      const std::vector<Route> found = routes.Between(from, to), expected = apart.Between(from, to);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t leg = 0; leg < found.size(); ++leg) {
        ExpectEqual(found[leg], expected[leg], absl::StrCat(from, " to ", to, ", leg ", leg));
      }
    }
    if (routes.FromHost(from) == nullptr) continue;
    ExpectEqual(*routes.FromHost(from), *apart.FromHost(from), absl::StrCat("from the host to ", from));
    ExpectEqual(*routes.ToHost(from), *apart.ToHost(from), absl::StrCat("to the host from ", from));
  }
  EXPECT_EQ(routes.RingOf(backwards), apart.RingOf(backwards));
}

TEST(RoutesOfClasses, AreThoseOfASearchForEachDevice) {
  Machine machine = WithHost(InNodes(24));
  machine.copy_engines = 2;
  machine.links[3].bytes_per_sec.value = 0.5e9;  // of a device that has its node to itself in that
  ExpectThoseOfASearchForEachDevice(machine);
  machine.peer_access = false;
  ExpectThoseOfASearchForEachDevice(machine);
}

TEST(RoutesOfClasses, DevicesThatAreStagedOrLinkedToEachOtherAreLikeNoOther) {
  Machine machine = WithHost(InNodes(16));
  machine.staged = {{"d1", "d2"}, {"d9", "d3"}};
  machine.links.push_back({.a = "d4", .b = "d12", .bytes_per_sec = {7e9}, .latency_sec = {1e-6}});
  ExpectThoseOfASearchForEachDevice(machine);
  EXPECT_EQ(Routes::Create(machine)->Between(1, 2).size(), 2u);
  EXPECT_EQ(Routes::Create(machine)->Between(1, 3).size(), 1u);
  EXPECT_EQ(Routes::Create(machine)->Between(4, 12)[0].bytes_per_sec, 7e9);
}

// Two devices with so many links between them, one behind the other.
Machine LinksInARow(int links) {
  Machine machine;
  machine.devices = {"first", "last"};
  for (int link = 0; link < links; ++link) {
    machine.links.push_back({.a = link == 0 ? "first" : absl::StrCat("n", link),
                             .b = link + 1 == links ? "last" : absl::StrCat("n", link + 1),
                             .bytes_per_sec = {1e9 + link},
                             .latency_sec = {1}});
  }
  return machine;
}

TEST(Routes, AreOfAtMost64Links) {
  const absl::StatusOr<Routes> routes = Routes::Create(LinksInARow(64));
  ASSERT_TRUE(routes.ok()) << routes.status();
  const Route route = routes->Between(0, 1)[0];
  ASSERT_EQ(route.resources.size(), 64u);
  for (int link = 0; link < 64; ++link) EXPECT_EQ(route.resources[link], 2 * link) << "there and back are two";
  EXPECT_EQ(route.latency_sec, 64);
  EXPECT_EQ(route.bytes_per_sec, 1e9);
  for (int links : {65, 32768}) {
    EXPECT_EQ(Routes::Create(LinksInARow(links)).status().message(),
              "links: expected a way from \"first\" to \"last\", found none; add the links between them (a way may have at "
              "most 64; "
              "devices forward nothing)");
  }
}

// Of ways of as many links the widest counts, and of these the first; a shorter one counts before a wider one.
TEST(Routes, AreTheShortestThenTheWidest) {
  Machine machine;
  machine.devices = {"d0", "d1"};
  const auto link = [&](const char* a, const char* b, double rate) {
    machine.links.push_back({.a = a, .b = b, .bytes_per_sec = {rate}, .latency_sec = {1}});
  };
  for (const auto& [node, rate] : {std::pair{"slow", 1e9}, {"fast", 3e9}, {"as fast", 3e9}}) {
    link("d0", node, rate);
    link(node, "d1", rate);
  }
  link("d0", "a", 9e9);
  link("a", "b", 9e9);
  link("b", "d1", 9e9);
  const Route route = Routes::Create(machine)->Between(0, 1)[0];
  EXPECT_EQ(route.bytes_per_sec, 3e9);
  EXPECT_EQ(std::vector<int>(route.resources.begin(), route.resources.end()), (std::vector<int>{4, 6}));
  EXPECT_EQ(route.first_node, 3) << "behind the devices and \"slow\"";
}

}  // namespace
}  // namespace colonnade::engine
