// Machine profiles: what is refused, with which message, and what comes back as it was written.
#include "engine/machine.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "engine/routes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwo[] = R"({
 "colonnade_machine": 1, "name": "two", "description": "a pair", "devices": ["d0", "d1"],
 "memory_bytes": {"value": 1e9, "from": "spec"},
 "flops_per_sec": {"value": 1e12, "from": "spec", "source": "data sheet"},
 "memory_bytes_per_sec": {"value": 2e11, "from": "measured"},
 "launch_sec": {"value": 1e-5, "from": "guess"}, "skew": {"value": 0.03, "from": "measured"},
 "ops": [{"op": "conv_forward", "unit": "flops_per_sec", "from": "published", "batch_curve": [[32, 0.5], [64, 1]],
          "points": [{"n": 64, "c": 3, "rate": 5e11}]}],
 "links": [{"a": "d0", "b": "bus", "bytes_per_sec": {"value": 6e9, "from": "published"}, "latency_sec": {"value": 1e-6, "from": "guess"}},
           {"a": "bus", "b": "d1", "bytes_per_sec": {"value": 6e9, "from": "published"}, "duplex": "half"}],
 "staged": [["d0", "d1"]], "fitted_to": "lenet", "peer_access": true, "copy_engines": 2, "collectives": "master", "steps_in_flight": 1,
 "transfers": [{"what": "all_reduce", "members": 2, "from": "measured", "points": [[1000, 1e-4]]}]
})";

std::string ErrorOf(const std::string& from, const std::string& to) {
  const std::string json = absl::StrReplaceAll(kTwo, {{from, to}});
  EXPECT_NE(json, kTwo) << from;
  const absl::Status status = MachineFromJson(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// The pair above goes through a host that it does not have, unless peers reach each other.
std::string Good() { return absl::StrReplaceAll(kTwo, {{R"("staged": [["d0", "d1"]], )", ""}}); }

TEST(MachineFromJson, ReadsWhatMachineToJsonWrites) {
  absl::StatusOr<Machine> machine = MachineFromJson(Good());
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->warnings, IsEmpty());
  EXPECT_EQ(machine->ops[0].points[0].shape.c, 3);
  EXPECT_EQ(machine->fitted_to, "lenet");
  EXPECT_EQ(machine->links[1].duplex, Link::Duplex::kHalf);
  const std::string written = MachineToJson(*machine);
  absl::StatusOr<Machine> again = MachineFromJson(written);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(MachineToJson(*again), written);
  EXPECT_EQ(CountByOrigin(*machine), (std::vector<int>{2, 3, 5, 2}));
}

TEST(MachineFromJson, SaysTheLineAndColumnWhereTextIsNotJson) {
  const absl::Status comma = MachineFromJson("{\n \"colonnade_machine\": 1,\n}").status();
  EXPECT_EQ(comma.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(comma.message()), HasSubstr("line 3, column 1: unexpected '}'"));
  EXPECT_THAT(std::string(MachineFromJson("").status().message()), HasSubstr("line 1, column 1"));
  EXPECT_THAT(std::string(MachineFromJson("{\"a\": 1e999}").status().message()),
              HasSubstr("expected JSON; number overflow"));
}

TEST(MachineFromJson, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(ErrorOf(R"("name": "two")", R"("name": "two", "name": "three")"),
              HasSubstr("key \"name\" twice in one object"));
  EXPECT_THAT(ErrorOf(R"("n": 64, )", R"("n": 64, "n": 32, )"), HasSubstr("key \"n\" twice"));
}

TEST(MachineFromJson, RefusesOpsAndTransfersThatNoProgramHas) {
  EXPECT_THAT(ErrorOf(R"("op": "conv_forward")", R"("op": "conv_fwd")"),
              HasSubstr("ops[0].op: unknown name \"conv_fwd\", did you mean \"conv_forward\"?"));
  EXPECT_THAT(ErrorOf(R"("what": "all_reduce")", R"("what": "allreduce")"),
              HasSubstr("transfers[0].what: unknown name \"allreduce\", did you mean \"all_reduce\"?"));
}

TEST(MachineFromJson, WarnsOfAProfileWithoutOps) {
  std::string json = Good();
  const size_t begin = json.find("\"ops\""), end = json.find("\"links\"");
  absl::StatusOr<Machine> machine = MachineFromJson(json.erase(begin, end - begin));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->warnings, ::testing::ElementsAre(HasSubstr("there are no ops")));
}

TEST(MachineFromJson, NamesWhatIsWrongWhereItIs) {
  EXPECT_THAT(ErrorOf(R"("colonnade_machine": 1)", R"("colonnade_machine": 2)"),
              HasSubstr("colonnade_machine: expected version 1, found 2"));
  EXPECT_THAT(ErrorOf(R"("launch_sec")", R"("lunch_sec")"),
              HasSubstr("lunch_sec: unknown field, did you mean \"launch_sec\"?"));
  EXPECT_THAT(ErrorOf(R"("value": 6e9)", R"("value": -6e9)"),
              HasSubstr("links[0].bytes_per_sec.value: expected a number above 0, found -6"));
  EXPECT_THAT(ErrorOf(R"("rate": 5e11)", R"("rate": -1)"),
              HasSubstr("ops[0].points[0].rate: expected a number above 0, found -1"));
  EXPECT_THAT(ErrorOf(R"("from": "measured"},)", R"("from": "heard"},)"),
              HasSubstr("memory_bytes_per_sec.from: expected one of spec, measured, published, guess, found \"heard\""));
  EXPECT_THAT(ErrorOf(R"({"value": 1e9, "from": "spec"})", R"(1e9)"),
              HasSubstr("memory_bytes: expected an object, found 1"));
  EXPECT_THAT(ErrorOf(R"("devices": ["d0", "d1"],)", ""), HasSubstr("devices: missing"));
  EXPECT_THAT(ErrorOf(R"(["d0", "d1"],
)",
                      R"(["d0", "d0"],
)"),
              HasSubstr("found one twice"));
  EXPECT_THAT(ErrorOf(R"([[1000, 1e-4]])", "[]"), HasSubstr("transfers[0].points: expected at least one point"));
  EXPECT_THAT(ErrorOf(R"("copy_engines": 2)", R"("copy_engines": 3)"),
              HasSubstr("copy_engines: expected a number of at most 2, found 3"));
  EXPECT_THAT(std::string(MachineFromJson("{").status().message()), HasSubstr("expected JSON"));
  EXPECT_THAT(ErrorOf(R"("steps_in_flight": 1)", R"("steps_in_flight": 1e300)"), HasSubstr("a number of at most 16"));
  EXPECT_THAT(ErrorOf(R"([1000, 1e-4])", "[0, 1e-4]"), HasSubstr("expected a pair [bytes, seconds above 0], found a list"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(ErrorOf(R"({"value": 1e9, "from": "spec"})", deep),
              HasSubstr("expected plain JSON, found lists or objects nested deeper than 8"));
}

TEST(MachineFromJson, DevicesThatNothingConnectsAreRefused) {
  const std::string apart = absl::StrReplaceAll(Good(), {{R"("a": "bus", "b": "d1")", R"("a": "wire", "b": "d1")"}});
  EXPECT_THAT(std::string(MachineFromJson(apart).status().message()),
              HasSubstr("links: expected a way from \"d0\" to \"d1\", found none; add the links between them"));
  // A staged pair needs the host.
  EXPECT_THAT(std::string(MachineFromJson(kTwo).status().message()), HasSubstr("expected a way from \"d0\" to \"host\""));
}

TEST(MachineFromJson, WhatIsFasterThanAnyDeviceIsWarnedOf) {
  const std::string fast = absl::StrReplaceAll(Good(), {{"6e9", "6e12"}, {"2e11", "2e14"}});
  absl::StatusOr<Machine> machine = MachineFromJson(fast);
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->warnings.size(), 3u);
  EXPECT_THAT(machine->warnings[0], HasSubstr("memory_bytes_per_sec is 2e+14 byte/s, faster than any known device"));
  EXPECT_THAT(machine->warnings[1], HasSubstr("unit wrong by 1000?"));
}

TEST(Routes, TakeFewestLinksAndThenTheWidest) {
  Machine machine;
  machine.devices = {"a", "b", "c"};
  const auto link = [&](const char* from, const char* to, double rate) {
    machine.links.push_back({.a = from, .b = to, .bytes_per_sec = {rate}, .latency_sec = {1}});
  };
  link("a", "x", 5);
  link("x", "b", 5);
  link("a", "y", 7);
  link("y", "b", 6);
  link("a", "c", 100);  // a device forwards nothing
  link("c", "b", 100);
  absl::StatusOr<Routes> routes = Routes::Create(machine);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->Between(0, 1)[0].bytes_per_sec, 6);
  EXPECT_EQ(routes->Between(0, 1)[0].latency_sec, 2);
  EXPECT_EQ(routes->Between(0, 2)[0].bytes_per_sec, 100);
  EXPECT_EQ(routes->FromHost(0), nullptr);
}

// From a, b has the best rate; from b, c and d have one rate, and d the least latency; from d, c and e are alike.
TEST(Routes, ARingLeadsToTheNearestThatIsLeft) {
  Machine machine;
  machine.devices = {"a", "b", "c", "d", "e"};
  const auto link = [&](const char* from, const char* to, double rate, double latency) {
    machine.links.push_back({.a = from, .b = to, .bytes_per_sec = {rate}, .latency_sec = {latency}});
  };
  for (const std::string& device : machine.devices) link(device.c_str(), "bus", 1, 1);
  link("a", "b", 9, 1);
  link("a", "d", 8, 1);
  link("b", "c", 5, 3);
  link("b", "d", 5, 2);
  absl::StatusOr<Routes> routes = Routes::Create(machine);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(routes->RingOf({0, 4, 3, 2, 1}), ElementsAre(0, 1, 3, 2, 4));
  EXPECT_THAT(routes->RingOf({2, 0}), ElementsAre(2, 0));
  EXPECT_THAT(routes->RingOf({}), ElementsAre());
}

}  // namespace
}  // namespace colonnade::engine
