// Machine profiles: what is refused, with which message, and what comes back as it was written.
// One file for all fields, so that one sees which is never refused.
#include "engine/machine.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/machine_quantities.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/routes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program/op_traits.h"
#include "tests/paths.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwo[] = R"({
 "colonnade_machine": 1, "name": "two", "description": "a pair", "precision": "tf32", "kernels": "winograd", "devices": ["d0", "d1"],
 "memory_bytes": {"value": 1e9, "from": "spec"},
 "flops_per_sec": {"value": 1e12, "from": "spec", "source": "data sheet"},
 "memory_bytes_per_sec": {"value": 2e11, "from": "measured"},
 "launch_sec": {"value": 1e-5, "from": "guess"}, "skew": {"value": 0.03, "from": "measured"},
 "ops": [{"op": "conv_forward", "unit": "flops_per_sec", "from": "published", "batch_curve": [[32, 0.5], [64, 1]],
          "points": [{"n": 64, "c": 3, "rate": 5e11}]}],
 "links": [{"a": "d0", "b": "bus", "bytes_per_sec": {"value": 6e9, "from": "published"}, "latency_sec": {"value": 1e-6, "from": "guess"}},
           {"a": "bus", "b": "d1", "bytes_per_sec": {"value": 6e9, "from": "published"}, "duplex": "half"}],
 "staged": [["d0", "d1"]], "fitted_to": "lenet", "timed": ["lenet", "vgg11"], "peer_access": true, "copy_engines": 2, "collectives": "master", "steps_in_flight": 1,
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

template <class F>
void ForEachOrigin(const Machine& m, F f) {
  for (const MachineQuantity& of : MachineQuantities()) {
    if (const Quantity& q = m.*of.quantity; q.value != 0) f(q.origin, 1);
  }
  for (const OpRate& op : m.ops) f(op.origin, op.points.size() + op.batch_curve.size());
  for (const Link& link : m.links) {
    f(link.bytes_per_sec.origin, 1);
    if (link.latency_sec.value != 0) f(link.latency_sec.origin, 1);
    if (link.one_transfer_bytes_per_sec.value != 0) f(link.one_transfer_bytes_per_sec.origin, 1);
  }
  for (const MeasuredTransfer& transfer : m.transfers) f(transfer.origin, transfer.points.size());
  for (const SlowerDevice& slower : m.slower) f(slower.origin, 1);
}

// Counts the numbers of `machine` by origin: {spec, measured, published, fitted, guess}.
std::vector<int> CountByOrigin(const Machine& machine) {
  std::vector<int> counts(std::size(kOriginNames), 0);
  ForEachOrigin(machine,
                [&](Origin origin, size_t numbers) { counts[static_cast<int>(origin)] += static_cast<int>(numbers); });
  return counts;
}

TEST(MachineFromJson, ReadsWhatMachineToJsonWrites) {
  absl::StatusOr<Machine> machine = MachineFromJson(Good());
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->warnings, IsEmpty());
  EXPECT_EQ(machine->ops[0].points[0].shape.c, 3);
  EXPECT_EQ(machine->fitted_to.model, "lenet");
  EXPECT_THAT(machine->timed, ::testing::ElementsAre("lenet", "vgg11"));
  EXPECT_EQ(machine->precision, "tf32");
  EXPECT_EQ(machine->kernels, "winograd");
  EXPECT_EQ(machine->links[1].duplex, Link::Duplex::kHalf);
  const std::string written = MachineToJson(*machine);
  absl::StatusOr<Machine> again = MachineFromJson(written);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(MachineToJson(*again), written);
  EXPECT_EQ(CountByOrigin(*machine), (std::vector<int>{2, 3, 5, 0, 2}));
}

TEST(MachineFromJson, KnowsThreePrecisionsAndTwoKindsOfKernels) {
  EXPECT_THAT(ErrorOf(R"("tf32")", R"("fp16")"),
              HasSubstr("precision: unknown name \"fp16\", did you mean \"fp32\"?; expected one of fp32, tf32, bf16"));
  EXPECT_EQ(MachineFromJson(absl::StrReplaceAll(Good(), {{R"("precision": "tf32", )", ""}}))->precision, "");
  EXPECT_THAT(MachineFromJson(absl::StrReplaceAll(Good(), {{R"("winograd")", R"("reference")"}})).status().message(),
              HasSubstr("kernels: unknown name \"reference\"; expected one of onednn, winograd"));
  EXPECT_EQ(MachineFromJson(absl::StrReplaceAll(Good(), {{R"("kernels": "winograd", )", ""}}))->kernels, "");
}

TEST(MachineFromJson, SaysTheLineAndColumnWhereTextIsNotJson) {
  const absl::Status comma = MachineFromJson("{\n \"colonnade_machine\": 1,\n}").status();
  EXPECT_EQ(comma.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(comma.message()), HasSubstr("line 3, column 1: unexpected '}'"));
  EXPECT_THAT(std::string(MachineFromJson("").status().message()), HasSubstr("line 1, column 1"));
  EXPECT_THAT(std::string(MachineFromJson("{\"a\": 1e999}").status().message()),
              HasSubstr("expected JSON; line 1, column 12: number overflow"));
}

TEST(MachineFromJson, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(std::string(MachineFromJson("{\n \"a\": 1,\n \"a\": 2\n}").status().message()),
            "expected plain JSON, found key \"a\" twice in one object at line 3, column 4");
  EXPECT_THAT(ErrorOf(R"("name": "two")", R"("name": "two", "name": "three")"),
              HasSubstr("key \"name\" twice in one object at line "));
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
  EXPECT_EQ(std::string(MachineFromJson(R"({"colonnade_plan": 1, "mesh": []})").status().message()),
            "expected a machine profile, found a plan file; --plan takes it");
  EXPECT_THAT(ErrorOf(R"("launch_sec")", R"("lunch_sec")"),
              HasSubstr("lunch_sec: unknown field, did you mean \"launch_sec\"?"));
  EXPECT_THAT(ErrorOf(R"("value": 6e9)", R"("value": -6e9)"),
              HasSubstr("links[0].bytes_per_sec.value: expected a number from 1000 to 2e+14 byte/s, found -6"));
  EXPECT_THAT(ErrorOf(R"("rate": 5e11)", R"("rate": -1)"),
              HasSubstr("ops[0].points[0].rate: expected a number from 1 to 1e+18 flop/s, found -1"));
  EXPECT_THAT(
      ErrorOf(R"("from": "measured"},)", R"("from": "heard"},)"),
      HasSubstr("memory_bytes_per_sec.from: expected one of spec, measured, published, fitted, guess, found \"heard\""));
  EXPECT_THAT(ErrorOf(R"("from": "measured"},)", R"("from": "measurd"},)"),
              HasSubstr("guess, found \"measurd\"; did you mean \"measured\"?"));
  EXPECT_THAT(ErrorOf(R"("staged": [["d0", "d1"]])", R"("staged": [["d0", "dd1"]])"),
              HasSubstr("staged: expected a device, found \"dd1\"; did you mean \"d1\"?"));
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
              HasSubstr("copy_engines: expected a whole number from 0 to 2, found 3"));
  EXPECT_THAT(std::string(MachineFromJson("{").status().message()), HasSubstr("expected JSON"));
  EXPECT_THAT(ErrorOf(R"("steps_in_flight": 1)", R"("steps_in_flight": 1e300)"), HasSubstr("a whole number from 1 to 16"));
  EXPECT_THAT(ErrorOf(R"([1000, 1e-4])", "[0, 1e-4]"),
              HasSubstr("expected a pair [bytes above 0, seconds from 1e-12 to 100000], found [0,0.0001]"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(ErrorOf(R"({"value": 1e9, "from": "spec"})", deep),
              HasSubstr("expected plain JSON, found lists or objects nested deeper than 8 at line 3, column 25"));
}

constexpr char kCluster[] = R"({
 "colonnade_machine": 1, "name": "cluster", "devices": {"name": "gpu", "count": 1024},
 "memory_bytes": {"value": 8e10, "from": "spec"}, "flops_per_sec": {"value": 6e13, "from": "spec"},
 "memory_bytes_per_sec": {"value": 3e12, "from": "spec"},
 "links": [{"a": "gpu", "b": "node", "each": 8, "bytes_per_sec": {"value": 4e11, "from": "spec"}},
           {"a": "node", "b": "rack", "each": 16, "bytes_per_sec": {"value": 2e11, "from": "spec"}},
           {"a": "rack", "b": "core", "each": 8, "bytes_per_sec": {"value": 1e12, "from": "spec"}}],
 "collectives": "fastest"})";

// A number at the end of its bounds is taken, one beyond it is not; both ends.
TEST(MachineFromJson, NumbersEndWhereTheirBoundsDo) {
  struct Case {
    const char *field, *found, *least, *below, *most, *above, *message;
  };
  const Case cases[] = {
      {R"("value": 1e12)", "flops_per_sec", "1e6", "9e5", "1e18", "2e18",
       "flops_per_sec.value: expected a number from 1e+06"},
      {R"("value": 2e11)", "memory_bytes_per_sec", "1e6", "9e5", "5e15", "6e15", "memory_bytes_per_sec.value: expected"},
      {R"("value": 1e-5)", "launch_sec", "0", "-1e-9", "10", "11", "launch_sec.value: expected a number from 0 to 10 s"},
      {R"("value": 1e-6)", "latency_sec", "0", "-1e-9", "10", "11", "links[0].latency_sec.value: expected a number from 0"},
      {R"("value": 0.03)", "skew", "0", "-0.1", "10", "11", "skew.value: expected a number from 0 to 10"},
      {R"("rate": 5e11)", "rate", "1", "0.5", "1e18", "2e18", "ops[0].points[0].rate: expected"},
      {R"("members": 2)", "members", "2", "1", "4096", "4097",
       "transfers[0].members: expected a whole number from 2 to 4096"},
      {R"("steps_in_flight": 1)", "steps_in_flight", "1", "0", "16", "17", "steps_in_flight: expected a whole number"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.found);
    const std::string field = c.field, name = field.substr(0, field.find(':') + 2);
    for (const char* good : {c.least, c.most}) {
      const std::string json = absl::StrReplaceAll(Good(), {{field, name + good}});
      EXPECT_TRUE(MachineFromJson(json).ok()) << MachineFromJson(json).status();
    }
    for (const char* bad : {c.below, c.above}) EXPECT_THAT(ErrorOf(field, name + bad), HasSubstr(c.message));
  }
}

TEST(MachineFromJson, ALongNameIsCutBehindACharacter) {
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\u00f6";
  EXPECT_THAT(ErrorOf(R"("name":)", absl::StrCat("\"x", name, "\": 1, \"name\":")),
              HasSubstr(absl::StrCat("x", name.substr(0, 56), "...: unknown field")));
  EXPECT_THAT(ErrorOf(R"("name":)", absl::StrCat("\"", name, "\": 1, \"name\":")),
              HasSubstr(absl::StrCat(name.substr(0, 56), "...: unknown field")));
}

// Links of many nodes say nothing of themselves where there are no devices.
TEST(MachineFromJson, ThatThereAreNoDevicesIsSaidFirst) {
  const absl::Status status = MachineFromJson(R"({"colonnade_machine": 1, "name": "none", "devices": [],
      "links": [{"a": "gpu", "b": "switch", "each": 8, "bytes_per_sec": {"value": 1e9, "from": "guess"}}]})")
                                  .status();
  EXPECT_EQ(status.message(), "devices: expected at least one, found none");
}

// Each number that a profile states once: written as it was read, and refused beyond its bounds.
TEST(MachineFromJson, EveryQuantityComesBackAndHasBounds) {
  const auto with = [](const MachineQuantity& of, double value) {
    Machine machine = *MachineFromJson(Good());
    if (of.quantity == &Machine::server_bytes_per_sec) {
      machine.collectives = CollectiveAlgorithm::kServer;
      machine.server = "bus";
    }
    if (of.quantity != &Machine::peak_memory_bytes_per_sec) machine.*of.quantity = {value, Origin::kGuess, "here", 1.5};
    return MachineToJson(machine);
  };
  for (const MachineQuantity& of : MachineQuantities()) {
    SCOPED_TRACE(of.field);
    const double good = std::max(of.bounds.least, std::min(1.0, of.bounds.most));
    const absl::StatusOr<Machine> machine = MachineFromJson(with(of, good));
    ASSERT_TRUE(machine.ok()) << machine.status();
    if (of.quantity == &Machine::peak_memory_bytes_per_sec) continue;  // see MemoryIsNoFasterThanItsPeak
    EXPECT_EQ(((*machine).*of.quantity).value, good);
    EXPECT_EQ(((*machine).*of.quantity).source, "here");
    EXPECT_EQ(((*machine).*of.quantity).within, 1.5);
    EXPECT_THAT(std::string(MachineFromJson(with(of, -1)).status().message()),
                HasSubstr(absl::StrCat(of.field, ".value: expected a number from")));
    EXPECT_FALSE(MachineFromJson(with(of, of.bounds.most * 1.01)).ok());
  }
}

TEST(MachineFromJson, ServerSlowerDevicesAndHostsComeBack) {
  const auto with = [](const std::string& more) {
    return absl::StrReplaceAll(Good(), {{R"("collectives": "master",)", more}});
  };
  const std::string all = with(R"("collectives": "server", "server": "bus", "devices_per_host": 1,
                                  "slower": [{"device": "d1", "factor": 1.5, "from": "measured", "source": "here"}],)");
  const absl::StatusOr<Machine> machine = MachineFromJson(all);
  ASSERT_TRUE(machine.ok()) << machine.status();
  const absl::StatusOr<Machine> again = MachineFromJson(MachineToJson(*machine));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->collectives, CollectiveAlgorithm::kServer);
  EXPECT_EQ(again->server, "bus");
  EXPECT_EQ(again->devices_per_host, 1);
  ASSERT_EQ(again->slower.size(), 1u);
  EXPECT_EQ(again->slower[0].device, "d1");
  EXPECT_EQ(again->slower[0].factor, 1.5);
  EXPECT_EQ(again->slower[0].origin, Origin::kMeasured);
  EXPECT_EQ(again->slower[0].source, "here");
  EXPECT_EQ(CountByOrigin(*again)[static_cast<int>(Origin::kMeasured)],
            CountByOrigin(*MachineFromJson(Good()))[static_cast<int>(Origin::kMeasured)] + 1);
  const auto error = [&](const std::string& more) { return std::string(MachineFromJson(with(more)).status().message()); };
  EXPECT_THAT(error(R"("collectives": "server",)"), HasSubstr("links: expected a way from \"d0\" to \"host\", found none"));
  EXPECT_THAT(error(R"("collectives": "ring", "server": "bus",)"),
              HasSubstr("server: expected collectives \"server\" beside it, found \"ring\""));
  EXPECT_THAT(error(R"("server_bytes_per_sec": {"value": 1e9, "from": "spec"},)"),
              HasSubstr("server_bytes_per_sec: expected collectives \"server\" beside it, found \"ring\""));
  EXPECT_THAT(error(R"("collectives": "server", "server": "d0",)"),
              HasSubstr("server: expected a node that is no device, found \"d0\""));
  const std::string one_engine = absl::StrReplaceAll(all, {{R"("copy_engines": 2)", R"("copy_engines": 1)"}});
  EXPECT_THAT(std::string(MachineFromJson(one_engine).status().message()),
              HasSubstr("copy_engines: expected 0 or 2 where collectives go through a server"));
  const absl::StatusOr<Machine> unused = MachineFromJson(with(R"("switch_bytes_per_sec": {"value": 1e9, "from": "spec"},)"));
  ASSERT_TRUE(unused.ok()) << unused.status();
  EXPECT_THAT(unused->warnings, ElementsAre(HasSubstr("switch_bytes_per_sec is not used")));
  EXPECT_THAT(error(R"("devices_per_host": 0,)"), HasSubstr("devices_per_host: expected a whole number from 1 to 4096"));
  EXPECT_THAT(error(R"("slower": [{"device": "d2", "factor": 1.5}],)"),
              HasSubstr("slower: expected a device, found \"d2\"; did you mean"));
  EXPECT_THAT(error(R"("slower": [{"device": "d1", "factor": 0.9}],)"),
              HasSubstr("slower[0].factor: expected a number from 1 to 100, found 0.9"));
  EXPECT_THAT(error(R"("slower": [{"device": "d1", "factor": 2}, {"device": "d1", "factor": 3}],)"),
              HasSubstr("slower: expected a device once, found \"d1\" twice"));
}

TEST(LimitRates, MakesAProfileThatCanBeRead) {
  Machine machine = *MachineFromJson(Good());
  machine.flops_per_sec.value = machine.memory_bytes_per_sec.value = machine.ops[0].points[0].rate = 1e30;
  for (Link& link : machine.links) link.bytes_per_sec.value = 1e30;
  EXPECT_FALSE(MachineFromJson(MachineToJson(machine)).ok());
  LimitRates(machine);
  EXPECT_TRUE(MachineFromJson(MachineToJson(machine)).ok()) << MachineFromJson(MachineToJson(machine)).status();
}

TEST(MachineFromJson, FractionsOfWhatIsCountedAreRefused) {
  const std::string whole = "expected a whole number";
  EXPECT_THAT(ErrorOf(R"("n": 64)", R"("n": 64.5)"), HasSubstr("ops[0].points[0].n: " + whole));
  EXPECT_THAT(ErrorOf(R"("c": 3)", R"("c": 3, "devices": 1.5)"), HasSubstr("ops[0].points[0].devices: " + whole));
  EXPECT_THAT(ErrorOf(R"("members": 2)", R"("members": 2.5)"), HasSubstr("transfers[0].members: " + whole));
  EXPECT_THAT(ErrorOf(R"("copy_engines": 2)", R"("copy_engines": 0.5)"), HasSubstr("copy_engines: " + whole));
  EXPECT_THAT(ErrorOf(R"("copy_engines": 2)", R"("copy_engines": 2, "cores": {"value": 1.5, "from": "spec"})"),
              HasSubstr("cores.value: " + whole));
}

TEST(MachineFromJson, TwoValuesForOnePointAreRefused) {
  EXPECT_THAT(
      ErrorOf(R"({"n": 64, "c": 3, "rate": 5e11})", R"({"n": 64, "c": 3, "rate": 5e11}, {"c": 3, "n": 64, "rate": 4e11})"),
      HasSubstr("ops[0].points[1]: expected one rate for each shape and number of devices, found a second one"));
  EXPECT_THAT(ErrorOf("[64, 1]", "[32, 1]"), HasSubstr("batch_curve[1][0]: expected a number that stands once, found 32"));
  EXPECT_THAT(ErrorOf("[1000, 1e-4]", "[1000, 1e-4], [1000, 2e-4]"),
              HasSubstr("points[1][0]: expected a number that stands once"));
  EXPECT_THAT(ErrorOf(R"("transfers": [)",
                      R"("transfers": [{"what": "all_reduce", "members": 2, "from": "guess", "points": [[1, 1]]}, )"),
              HasSubstr("transfers: expected one entry for each, found all_reduce of 2 twice"));
  EXPECT_THAT(ErrorOf(R"("ops": [)", R"("ops": [{"op": "conv_forward", "unit": "bytes_per_sec", "from": "guess",
                                        "points": [{"rate": 1e9}]}, )"),
              HasSubstr("ops: expected one entry for each op, found \"conv_forward\" twice"));
}

TEST(MachineFromJson, NumbersOfPairsAreBoundedToo) {
  EXPECT_THAT(ErrorOf("[1000, 1e-4]", "[1000, 1e300]"),
              HasSubstr("points[0]: expected a pair [bytes above 0, seconds from"));
  EXPECT_THAT(ErrorOf("[32, 0.5]", "[32, 1e-320]"),
              HasSubstr("batch_curve[0]: expected a pair [local batch from 1, factor"));
  EXPECT_THAT(ErrorOf("[32, 0.5]", "[0.5, 0.5]"), HasSubstr("batch_curve[0]: expected a pair"));
}

TEST(MachineFromJson, NoDeviceIsTheHost) {
  const std::string json = absl::StrReplaceAll(Good(), {{"\"d1\"", "\"host\""}});
  EXPECT_THAT(std::string(MachineFromJson(json).status().message()), HasSubstr("devices: expected another name than host"));
}

// The message of the cluster with `count` more links for many, each from its GPUs to nodes called `b_of(number from 1)`.
template <class Name>
std::string ErrorOfMoreLinks(int count, int each, Name b_of) {
  std::string links;
  for (int i = 1; i <= count; ++i) {
    absl::StrAppendFormat(&links, R"({"a": "gpu", "b": "%s", "each": %d, "bytes_per_sec": {"value": 1e9, "from": "spec"}},)",
                          b_of(i), each);
  }
  const std::string json = absl::StrReplaceAll(kCluster, {{R"("links": [)", absl::StrCat(R"("links": [)", links)}});
  return std::string(MachineFromJson(json).status().message());
}

// Each entry adds a thousand links; a few hundred are refused at once, not after minutes.
TEST(MachineFromJson, LinksForManyAreBounded) {
  EXPECT_THAT(ErrorOfMoreLinks(300, 8, [](int i) { return absl::StrCat("node", i, "x"); }),
              HasSubstr("expected at most 32768 links"));
}

// Node x0 leads to x10, that to x110, and so on; with nine such lines to nearly every number that there is.
TEST(MachineFromJson, NodesToWhichLinksForManyLeadAreBounded) {
  EXPECT_THAT(ErrorOfMoreLinks(9, 1, [](int i) { return absl::StrCat("gpu", i); }),
              HasSubstr("links: expected at most 32768 links, found more"));
}

// Of these each GPU has 4,000: the lines are not followed further than there may be links.
TEST(MachineFromJson, LinesThatLeadNowhereNewAreCountedAsTheyAreFollowed) {
  EXPECT_THAT(ErrorOfMoreLinks(4'000, 4096, [](int i) { return absl::StrCat("x", i, "x"); }),
              HasSubstr("links: expected at most 32768 links, found more"));
}

TEST(Routes, DevicesOfTooManyKindsAreRefused) {
  Machine machine;
  for (int d = 0; d < 1025; ++d) {
    machine.devices.push_back(absl::StrCat("d", d));
    machine.links.push_back({.a = machine.devices[d], .b = "switch", .bytes_per_sec = {1e9 + d}, .latency_sec = {}});
  }
  EXPECT_THAT(std::string(Routes::Create(machine).status().message()),
              HasSubstr("at most 1024 kinds by their links, found 1025"));
}

TEST(MachineFromJson, MemoryIsNoFasterThanItsPeak) {
  const auto with_peak = [](const char* peak) {
    return absl::StrCat(R"("launch_sec": {"value": 1e-5, "from": "guess"}, "peak_memory_bytes_per_sec": {"value": )", peak,
                        R"(, "from": "spec"})");
  };
  const std::string launch = R"("launch_sec": {"value": 1e-5, "from": "guess"})";
  EXPECT_TRUE(MachineFromJson(absl::StrReplaceAll(Good(), {{launch, with_peak("2e11")}})).ok());
  EXPECT_THAT(
      ErrorOf(launch, with_peak("1.9e11")),
      HasSubstr("memory_bytes_per_sec.value: expected at most peak_memory_bytes_per_sec, 1.9e+11 byte/s, found 2e+11"));
}

TEST(MachineFromJson, UncertaintyComesBackAsItWasWritten) {
  const std::string doubtful = absl::StrReplaceAll(
      Good(),
      {{R"("from": "measured"}, "skew")", R"("from": "measured", "within": 1.1}, "skew")"},
       {R"("from": "guess"}, "skew")", R"("from": "guess", "within": 2}, "skew")"},
       {R"("from": "published", "batch_curve")",
        R"("from": "published", "within": 1.2, "batch_curve_within": 1.4, "batch_curve")"},
       {R"("from": "measured", "points")", R"("from": "measured", "within": 1.3, "points")"},
       {R"("fitted_to": "lenet")", R"("fitted_to": {"model": "lenet", "batch": 8, "step_sec": 0.5, "pixels": "fp32"})"}});
  const absl::StatusOr<Machine> machine = MachineFromJson(doubtful);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->launch_sec.within, 2);
  EXPECT_EQ(machine->ops[0].within, 1.2);
  EXPECT_EQ(machine->ops[0].batch_curve_within, 1.4);
  EXPECT_EQ(machine->transfers[0].within, 1.3);
  EXPECT_EQ(machine->fitted_to.batch, 8);
  EXPECT_EQ(machine->fitted_to.step_sec, 0.5);
  EXPECT_TRUE(machine->fitted_to.has_f32_pixels);
  const std::string written = MachineToJson(*machine);
  const absl::StatusOr<Machine> again = MachineFromJson(written);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(MachineToJson(*again), written);
  EXPECT_THAT(ErrorOf(R"("from": "guess"}, "skew")", R"("from": "guess", "within": 0.5}, "skew")"),
              HasSubstr("launch_sec.within: expected a number from 1 to 100, found 0.5"));
}

TEST(MachineFromJson, AThousandDevicesAreAFewLines) {
  const absl::StatusOr<Machine> machine = MachineFromJson(kCluster);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->device_count(), 1024);
  ASSERT_EQ(machine->links.size(), 1024u + 128 + 8);
  const auto way = [&](size_t link) { return absl::StrCat(machine->links[link].a, "-", machine->links[link].b); };
  EXPECT_EQ(way(7), "gpu7-node0");
  EXPECT_EQ(way(8), "gpu8-node1");
  EXPECT_EQ(way(1023), "gpu1023-node127");
  EXPECT_EQ(way(1024 + 127), "node127-rack7");
  EXPECT_EQ(way(1024 + 128 + 7), "rack7-core0");
  const absl::StatusOr<Routes> routes = Routes::Create(*machine);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->Between(0, 7)[0].bytes_per_sec, 4e11);
  EXPECT_EQ(routes->Between(0, 1023)[0].bytes_per_sec, 2e11);
}

// Whichever line first leads to a node.
TEST(MachineFromJson, LinksThatAreGivenOnceForManyAreTheSameInAnyOrder) {
  const auto lines_of = [](const Machine& machine) {
    std::vector<std::string> lines;
    for (const Link& link : machine.links) {
      lines.push_back(absl::StrFormat("%s-%s %g", link.a, link.b, link.bytes_per_sec.value));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  nlohmann::json cluster = nlohmann::json::parse(kCluster);
  const std::vector<std::string> expected = lines_of(*MachineFromJson(kCluster));
  std::vector<nlohmann::json> links = cluster["links"];
  for (int order = 0; order < 6; ++order) {
    std::next_permutation(links.begin(), links.end());
    cluster["links"] = links;
    const absl::StatusOr<Machine> machine = MachineFromJson(cluster.dump());
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(lines_of(*machine), expected) << cluster["links"].dump();
  }
}

TEST(MachineFromJson, NodesWhoseNameHasADigitBeforeTheirNumberAreOfTheLongerNumber) {
  const std::string json =
      absl::StrReplaceAll(kCluster, {{R"("b": "node", "each": 8)", R"("b": "node1", "each": 8)"}, {"1024", "16"}});
  const absl::StatusOr<Machine> machine = MachineFromJson(json);  // node10 and node11
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->links.size(), 16u + 2 + 1);
  EXPECT_EQ(machine->links[17].a, "node11");
  EXPECT_EQ(machine->links[17].b, "rack0");
}

TEST(MachineFromJson, NodesThatAreGivenOnceForManyMustBeThere) {
  const auto error = [](const std::string& from, const std::string& to) {
    return std::string(MachineFromJson(absl::StrReplaceAll(kCluster, {{from, to}})).status().message());
  };
  EXPECT_THAT(error(R"("a": "node")", R"("a": "nodes")"),
              HasSubstr("links[1].a: expected the name of nodes without their number, as gpu of gpu0, found \"nodes\", and "
                        "neither a device nor the end of a link is called that and a number; did you mean \"node\"?"));
  EXPECT_THAT(error(R"("each": 8, "bytes_per_sec": {"value": 4e11)", R"("each": 0, "bytes_per_sec": {"value": 4e11)"),
              HasSubstr("links[0].each: expected a whole number from 1 to 4096, found 0"));
  EXPECT_THAT(error(R"("count": 1024)", R"("count": 4097)"),
              HasSubstr("devices.count: expected a whole number from 1 to 4096"));
  EXPECT_THAT(error(R"("name": "gpu")", R"("nam": "gpu")"), HasSubstr("devices"));
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

// A wrong unit is that of all its points.
TEST(MachineFromJson, AnOpIsWarnedOfOnce) {
  const std::string point = R"({"n": 64, "c": 3, "rate": 5e11})";
  const std::string points =
      absl::StrReplaceAll(point, {{"5e11", "3e17"}}) + ", " + absl::StrReplaceAll(point, {{"64", "128"}, {"5e11", "4e17"}});
  const std::string wrong = absl::StrReplaceAll(Good(), {{point, points}});
  const absl::StatusOr<Machine> machine = MachineFromJson(wrong);
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->warnings.size(), 1u);
  EXPECT_THAT(machine->warnings[0], HasSubstr("ops: conv_forward is 4e+17 flop/s, faster than any known device"));
}

TEST(MachineFromJson, WhatIsSlowerThanAnyDeviceIsWarnedOf) {
  const absl::StatusOr<Machine> machine = MachineFromJson(absl::StrReplaceAll(Good(), {{"6e9", "6e5"}, {"2e11", "2e6"}}));
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->warnings.size(), 3u);
  EXPECT_THAT(machine->warnings[0], HasSubstr("memory_bytes_per_sec is 2e+06 byte/s, slower than any known device (1e+07)"));
}

TEST(MachineFromJson, ALinkToWhatIsProbablyMisspeltIsWarnedOf) {
  const std::string more =
      R"({"a": "bvs", "b": "d1", "bytes_per_sec": {"value": 1e9, "from": "spec"}}, {"a": "bus", "b": "d1")";
  const absl::StatusOr<Machine> machine =
      MachineFromJson(absl::StrReplaceAll(Good(), {{R"({"a": "bus", "b": "d1")", more}}));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->warnings,
              ElementsAre(HasSubstr(
                  "node \"bvs\" is no device and has one link alone, which leads nowhere; did you mean \"bus\"?")));
}

TEST(MachineFromJson, LinksBesideEachOtherAreWarnedOf) {
  const std::string more =
      R"({"a": "d1", "b": "bus", "bytes_per_sec": {"value": 1e9, "from": "spec"}}, {"a": "bus", "b": "d1")";
  const absl::StatusOr<Machine> machine =
      MachineFromJson(absl::StrReplaceAll(Good(), {{R"({"a": "bus", "b": "d1")", more}}));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_THAT(machine->warnings, ElementsAre(HasSubstr("links: there is more than one from bus to d1")));
}

// So that a profile can state the rate of each.
TEST(Names, OfAllOpsAreThere) {
  for (const program::Op& op : program::AllOps()) EXPECT_THAT(OpNames(), ::testing::Contains(program::Name(op)));
}

std::string SimulatorPage() {
  std::ifstream file(std::string(kSourceDir) + "/docs/simulator.md");
  std::stringstream page;
  page << file.rdbuf();
  return page.str();
}

// Nothing can be left out of it, and the table says so of each field.
TEST(MachineFromJson, ReadsTheProfileOfThePageWhichHasWhatIsNeeded) {
  const std::string page = SimulatorPage();
  const size_t begin = page.find("```json\n") + 8;
  const std::string profile = page.substr(begin, page.find("```", begin) - begin);
  const absl::StatusOr<Machine> machine = MachineFromJson(profile);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->devices.size(), 2u);
  const nlohmann::json fields = nlohmann::json::parse(profile);
  for (const auto& [name, value] : fields.items()) {
    nlohmann::json less = fields;
    less.erase(name);
    EXPECT_FALSE(MachineFromJson(less.dump()).ok()) << name;
    const size_t in_table = page.find(absl::StrCat("`", name), page.find("| field | unit | is |"));
    ASSERT_NE(in_table, std::string::npos) << name;
    EXPECT_THAT(page.substr(in_table, page.find('\n', in_table) - in_table), HasSubstr("needed")) << name;
  }
}

TEST(Names, OfOpsAndTransfersStandOnThePage) {
  const std::string page = SimulatorPage();
  for (const std::vector<std::string>* names : {&OpNames(), &ProfiledTransferNames()}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", absl::StrJoin(*names, "` `"), "`")))
        << "docs/simulator.md is to list\n`" << absl::StrJoin(*names, "` `") << "`";
  }
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
  EXPECT_THAT(routes->ChainOf({}), ElementsAre());
}

// From a, the nearest is b, from there d, then c, and the last step is the slowest link. Whoever begins with b comes back by
// faster ones.
TEST(Routes, ARingBeginsWhereItsSlowestStepIsFastest) {
  Machine machine;
  machine.devices = {"a", "b", "c", "d"};
  machine.memory_bytes_per_sec.value = 1e15;
  const auto link = [&](const char* from, const char* to, double rate) {
    machine.links.push_back({.a = from, .b = to, .bytes_per_sec = {rate}, .latency_sec = {1}});
  };
  link("a", "b", 10);
  link("b", "c", 8);
  link("b", "d", 9);
  link("c", "d", 7);
  link("a", "c", 1);
  link("a", "d", 6);
  const Routes routes = Routes::Create(machine).value();
  EXPECT_THAT(routes.ChainOf({0, 1, 2, 3}), ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(routes.ChainOf({2, 0, 1, 3}), ElementsAre(2, 1, 0, 3)) << "that of a broadcast begins with its root";
  EXPECT_THAT(routes.RingOf({0, 1, 2, 3}), ElementsAre(1, 0, 3, 2));
  const auto seconds = [&](program::CollectiveKind kind, int root) {
    const CostModel costs(machine, 4);
    return costs.SchedulesFor(routes, kind, {0, 1, 2, 3}, root).front().sec_per_byte;
  };
  EXPECT_NEAR(seconds(program::CollectiveKind::kAllReduce, 0), 2 * 0.75 / 6, 1e-9);
  EXPECT_NEAR(seconds(program::CollectiveKind::kBroadcast, 0), 1.0 / 7, 1e-9);
}

}  // namespace
}  // namespace colonnade::engine
