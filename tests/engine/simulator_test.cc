// The simulator on cases that one can compute by hand: all times are exact.
#include "engine/simulator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/simulator/transfer_phases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/on_a_switch.h"
#include "tests/engine/simulated_case.h"
#include "tests/sanitized.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::CollectiveKind;
using program::Lane;
using program::Program;

TEST(Simulate, TasksOfALaneRunOneAfterTheOther) {
  Case c(1);
  const BufferId x = c.Bytes(0, 4);
  c.Compute(0, x, 2'000'000);
  c.Compute(0, x, 3'000'000);
  Machine machine = OnASwitch(1);
  machine.launch_sec.value = 0.5 * kMs;
  const Simulation s = Of(c.Build(), machine);
  EXPECT_NEAR(Ms(s.step), 2 + 3 + 2 * 0.5, kExact);
  EXPECT_NEAR(Ms(s.first_step), 6, kExact);
  EXPECT_NEAR(Ms(s.devices[0].compute), 6, kExact);
  EXPECT_NEAR(Ms(s.devices[0].idle), 0, kExact);
}

TEST(Simulate, MemoryIsLeftOutWhereItIsNotAskedFor) {
  Case c(1);
  c.Compute(0, c.Bytes(0, 4096), 2'000'000);
  const Program program = c.Build();
  for (bool memory : {true, false}) {
    const absl::StatusOr<Simulation> simulation = Simulate(program, OnASwitch(1), {.memory = memory});
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_EQ(simulation->devices[0].peak_memory_bytes, memory ? 4096 : 0);
    EXPECT_NEAR(Ms(simulation->step), 2, kExact);
  }
}

TEST(Simulate, LanesOverlapUnlessTheyWait) {
  for (bool waits : {false, true}) {
    Case c(1);
    const BufferId x = c.Bytes(0, 4);
    c.Compute(0, x, 2'000'000);
    c.Compute(0, x, 5'000'000, Lane::kCopy);
    Program program = c.Build();
    if (waits) program.tasks[1].waits = {program::TaskId{0}};
    EXPECT_NEAR(Ms(Of(program, OnASwitch(1)).first_step), waits ? 7 : 5, kExact);
  }
}

TEST(Simulate, AHandoffCountsWhereALaneStoodWaiting) {
  Case c(1);
  const BufferId x = c.Bytes(0, 4);
  c.Compute(0, x, 2'000'000);
  c.Compute(0, x, 5'000'000, Lane::kCopy);
  c.Compute(0, x, 1'000'000);
  c.Compute(0, x, 1'000'000);
  Program program = c.Build();
  program.tasks[1].waits = {program::TaskId{0}};
  program.tasks[3].waits = {program::TaskId{1}};
  Machine machine = OnASwitch(1);
  machine.handoff_sec.value = 0.5 * kMs;
  // The copy lane stood waiting from the start, and the compute lane's last task for the copy.
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 2 + 0.5 + 5 + 0.5 + 1, kExact);
}

TEST(Simulate, SkewLengthensComputeWhereSeveralDevicesAreAtWork) {
  for (int devices : {1, 2}) {
    Case c(devices);
    c.Compute(0, c.Bytes(0, 4), 2'000'000);
    Machine machine = OnASwitch(devices);
    machine.skew.value = 0.25;
    EXPECT_NEAR(Ms(Of(c.Build(), machine).first_step), devices == 1 ? 2 : 2.5, kExact);
  }
}

// Without a wait for the step before, the copy lane (5 ms) is the bottleneck; with one, both follow each other.
TEST(Simulate, StepsOverlapAsFarAsWaitsAllow) {
  for (bool waits : {false, true}) {
    Case c(1);
    const BufferId x = c.Bytes(0, 4);
    c.Compute(0, x, 2'000'000);
    c.Compute(0, x, 5'000'000, Lane::kCopy);
    Program program = c.Build();
    program.tasks[1].waits = {program::TaskId{0}};
    if (waits) program.tasks[0].waits_previous = {program::TaskId{1}};
    EXPECT_NEAR(Ms(Of(program, OnASwitch(1)).step), waits ? 7 : 5, kExact);
  }
}

// A buffer of two slots is filled for the next step while this one reads it; with one slot the two follow each other.
TEST(Simulate, TheNextBatchIsLoadedUnderAStep) {
  for (int slots : {1, 2}) {
    Case c(1);
    const bool ahead = slots == 2;
    c.LoadAndCompute(ahead ? c.Loaded(4'000'000) : c.Bytes(0, 4'000'000), ahead ? Lane::kLoad : Lane::kCopy);
    Program program = c.Build();
    program.tasks[1].waits = {program::TaskId{0}};
    if (!ahead) program.tasks[0].waits_previous = {program::TaskId{1}};
    Machine machine = OnASwitch(1);
    machine.links.push_back({.a = "host", .b = "switch", .bytes_per_sec = {1e9}});
    const absl::StatusOr<Simulation> simulation = Simulate(program, machine, {.trace = true});
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_NEAR(Ms(simulation->step), ahead ? 5 : 9, kExact);
    EXPECT_NEAR(Ms(simulation->devices[0].input_wait), ahead ? 0 : 4, kExact);
  }
}

TEST(Simulate, TheHostsPartOfAStepHidesOnlyWhereTwoStepsAreInFlight) {
  Case c(1);
  c.Compute(0, c.Bytes(0, 4), 3'000'000);
  const Program program = c.Build();
  Machine machine = OnASwitch(1);
  machine.step_sec.value = 1 * kMs;
  machine.step_sec_per_device.value = 1 * kMs;
  EXPECT_NEAR(Ms(Of(program, machine).step), 3, kExact);
  machine.steps_in_flight = 1;
  EXPECT_NEAR(Ms(Of(program, machine).step), 5, kExact);
  machine.steps_in_flight = 2;
  machine.step_sec.value = 9 * kMs;
  EXPECT_NEAR(Ms(Of(program, machine).step), 10, kExact);
}

TEST(Simulate, ATransferStartsWhenBothSidesAreThere) {
  Case c(2);
  const BufferId x = c.Bytes(0, 4'000'000), y = c.Bytes(1, 4'000'000);
  c.Compute(0, x, 2'000'000);
  c.Send(0, x, 1, y);
  Program program = c.Build();
  program.tasks[1].waits = {program::TaskId{0}};
  Machine machine = OnASwitch(2, 0.25 * kMs);
  machine.steps_in_flight = 1;
  const Simulation s = Of(program, machine);
  EXPECT_NEAR(Ms(s.first_step), 2 + 2 * 0.25 + 4, kExact);
  // The receiver waits from the start on; its wait counts as communication.
  EXPECT_NEAR(Ms(s.devices[1].exposed_communication), 6.5, kExact);
  EXPECT_NEAR(Ms(s.devices[0].exposed_communication), 4.5, kExact);
}

// 0 → 2 and 1 → 2 share the way into 2; when the shorter has ended, the longer has it alone.
TEST(Simulate, FlowsShareALinkFairly) {
  Case c(3);
  const BufferId a = c.Bytes(0, 2'000'000), b = c.Bytes(1, 6'000'000);
  const BufferId a2 = c.Bytes(2, 2'000'000, "a"), b2 = c.Bytes(2, 6'000'000, "b");
  c.Send(0, a, 2, a2);
  c.Send(1, b, 2, b2);
  Program program = c.Build();
  for (program::Task& task : program.tasks) {
    if (task.id.value == 3) task.lane = Lane::kCopy;  // so that device 2 receives both at once
  }
  Machine machine = OnASwitch(3);
  machine.steps_in_flight = 1;
  const Simulation s = Of(program, machine);
  // Shared until 4 ms, when 0's 2 MB are there and 4 MB of 1's are left.
  const auto end_of = [&](int task) { return Ms(s.last_steps.events[task].end - s.last_steps.events[task].start); };
  EXPECT_NEAR(end_of(0), 4, 1e-6);
  EXPECT_NEAR(Ms(s.first_step), 8, kExact);
}

// As above, but the engine that receives takes one after the other: 2 ms, then 6.
TEST(Simulate, ACopyEngineServesOneTransferAfterTheOther) {
  Case c(3);
  const BufferId a = c.Bytes(0, 2'000'000), b = c.Bytes(1, 6'000'000);
  c.Send(0, a, 2, c.Bytes(2, 2'000'000, "a"));
  c.Send(1, b, 2, c.Bytes(2, 6'000'000, "b"));
  Program program = c.Build();
  program.tasks[3].lane = Lane::kCopy;
  Machine machine = OnASwitch(3);
  machine.steps_in_flight = 1;
  machine.copy_engines = 2;
  const Simulation s = Of(program, machine);
  EXPECT_NEAR(Ms(s.last_steps.events[0].end - s.last_steps.events[0].start), 2, 1e-6);
  EXPECT_NEAR(Ms(s.first_step), 8, kExact);
}

TEST(Simulate, ALinkMayGiveOneTransferLessThanItHas) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4'000'000), 1, c.Bytes(1, 4'000'000));
  Machine machine = OnASwitch(2);
  machine.links[0].one_transfer_bytes_per_sec.value = 0.5e9;
  EXPECT_NEAR(Ms(Of(c.Build(), machine).first_step), 8, kExact);
}

TEST(Simulate, WithoutPeerAccessATransferGoesThroughTheHostInTwoHalves) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4'000'000), 1, c.Bytes(1, 4'000'000));
  const Program program = c.Build();
  Machine machine = OnASwitch(2);
  machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {0.5e9}});
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 4, kExact);
  machine.peer_access = false;
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 8 + 8, kExact);
}

// Both directions at once: 4 ms with two copy engines or none, 8 with one, as on a half-duplex link.
TEST(Simulate, OneCopyEngineOrHalfDuplexSendsAndReceivesInTurn) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4'000'000), 1, c.Bytes(1, 4'000'000));
  const BufferId back = c.Bytes(1, 4'000'000, "b"), to = c.Bytes(0, 4'000'000, "t");
  c.Send(1, back, 0, to);
  Program program = c.Build();
  for (int task : {2, 3}) program.tasks[task].lane = Lane::kCopy;
  Machine machine = OnASwitch(2);
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 4, kExact);
  machine.copy_engines = 1;
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 8, kExact);
  machine.copy_engines = 2;
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 4, kExact);
  for (Link& link : machine.links) link.duplex = Link::Duplex::kHalf;
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 8, kExact);
}

// 2 cores: two computing threads and a transfer of two threads run at half speed each while all are there.
TEST(Simulate, WhereDevicesAreThreadsAllThatRunsSharesTheCores) {
  Case c(2);
  const BufferId x = c.Bytes(0, 4'000'000), y = c.Bytes(1, 4'000'000), p = c.Bytes(0, 4, "p"), q = c.Bytes(1, 4, "q");
  c.Compute(0, p, 10'000'000);
  c.Compute(1, q, 10'000'000);
  c.Send(0, x, 1, y);
  Machine machine = OnASwitch(2);
  machine.cores.value = 2;
  machine.steps_in_flight = 1;
  machine.transfers = {{.operation = "exchange", .members = 2, .points = {{4'000'000, 4 * kMs}}}};
  // The transfer needs 4 ms of both cores, the computing 10: 8 ms shared, then 6 alone.
  EXPECT_NEAR(Ms(Of(c.Build(), machine).first_step), 14, 1e-6);
}

TEST(Simulate, SentBytesAndMemoryAreThoseOfTheProgram) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4'000'000), 1, c.Bytes(1, 4'000'000));
  const Simulation s = Of(c.Build(), OnASwitch(2));
  EXPECT_EQ(s.devices[0].sent_bytes, 4'000'000);
  EXPECT_EQ(s.devices[1].sent_bytes, 0);
  EXPECT_EQ(s.devices[0].peak_memory_bytes, 4'000'000);
}

TEST(Simulate, AMachineWithFewerDevicesIsRefused) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4), 1, c.Bytes(1, 4));
  const absl::Status status = Simulate(c.Build(), OnASwitch(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("the Program uses 2 devices, machine test has 1"));
}

// The formulas of transfer_phases.h on links that do not share.
struct Formula {
  CollectiveAlgorithm algorithm;
  int members;
  double alphas, bytes;  // latencies and operands
};

void PrintTo(const Formula& f, std::ostream* out) { *out << Name(f.algorithm) << " of " << f.members; }

class AllReduceCost : public ::testing::TestWithParam<Formula> {};

TEST_P(AllReduceCost, IsThePublishedFormula) {
  const Formula& f = GetParam();
  Case c(f.members);
  std::vector<BufferId> xs;
  for (int d = 0; d < f.members; ++d) xs.push_back(c.Bytes(d, 12'000'000));
  c.AllReduce(xs);
  Machine machine = OnASwitch(f.members, 0.5 * kMs);  // a way has two links: 1 ms
  machine.collectives = f.algorithm;
  machine.memory_bytes_per_sec.value = 1e18;  // sums cost nothing
  EXPECT_NEAR(Ms(Of(c.Build(), machine).first_step), f.alphas + 12 * f.bytes, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, AllReduceCost,
    ::testing::Values(Formula{CollectiveAlgorithm::kRing, 2, 2, 1}, Formula{CollectiveAlgorithm::kRing, 4, 6, 1.5},
                      Formula{CollectiveAlgorithm::kDirect, 2, 2, 1}, Formula{CollectiveAlgorithm::kDirect, 3, 2, 4.0 / 3},
                      Formula{CollectiveAlgorithm::kTree, 2, 2, 1}, Formula{CollectiveAlgorithm::kTree, 4, 4, 1.5},
                      Formula{CollectiveAlgorithm::kTree, 5, 6, 2}, Formula{CollectiveAlgorithm::kTree, 16, 8, 2},
                      Formula{CollectiveAlgorithm::kMaster, 2, 2, 2}, Formula{CollectiveAlgorithm::kMaster, 4, 2, 6}));

TEST(MakePhases, EveryCollectiveMovesWhatItsFormulaSays) {
  const std::vector<int> four = {0, 1, 2, 3};
  const auto sent_by = [](const std::vector<Phase>& phases, int device) {
    double bytes = 0;
    for (const Phase& phase : phases) {
      for (const Flow& flow : phase.flows) bytes += flow.from == device ? flow.bytes : 0;
    }
    return bytes;
  };
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kDirect}) {
    for (int d : four) {
      EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kAllGather, algorithm, four, 100), d), 300);
      EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kReduceScatter, algorithm, four, 100), d), 75);
      EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kAllToAll, algorithm, four, 100), d), 75);
    }
  }
  // By way of a master, who is the first: all others send what they have, and it sends everything to each.
  const auto master = CollectiveAlgorithm::kMaster;
  EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kAllGather, master, four, 100), 0), 3 * 400);
  EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kAllGather, master, four, 100), 1), 100);
  const std::vector<int> from_two = {2, 3, 0, 1};
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree, CollectiveAlgorithm::kDirect,
                                        CollectiveAlgorithm::kMaster}) {
    EXPECT_DOUBLE_EQ(sent_by(MakePhases(CollectiveKind::kReduce, algorithm, from_two, 100), 2), 0)
        << "the root sends nothing";
    EXPECT_GT(sent_by(MakePhases(CollectiveKind::kBroadcast, algorithm, from_two, 100), 2), 0);
    EXPECT_TRUE(MakePhases(CollectiveKind::kAllReduce, algorithm, {0}, 100).empty());
  }
}

// As released it does some millions.
TEST(Simulate, ManyTasksASecond) {
  Case c(4);
  std::vector<BufferId> xs;
  for (int d = 0; d < 4; ++d) xs.push_back(c.Bytes(d, 1'000'000));
  for (int i = 0; i < 500; ++i) {
    for (int d = 0; d < 4; ++d) {
      for (int k = 0; k < 8; ++k) c.Compute(d, xs[d], 1000 * (i + d + 1));
    }
    c.AllReduce(xs);
  }
  const Program program = c.Build();
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<Simulation> s = Simulate(program, OnASwitch(4), {.trace = false});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(s.ok());
  const double rate = static_cast<double>(s->tasks) / seconds;
  RecordProperty("tasks_per_sec", absl::StrCat(rate));
  std::printf("%.0f tasks/s\n", rate);
  EXPECT_GT(rate, kSanitized ? 20'000 : 200'000);
}

TEST(Simulator, IsOfOneDeviceAtLeast) {
  const Machine machine = OnASwitch(8);
  for (const int devices : {0, -1}) {
    const absl::Status status = Simulator::Create(machine, devices).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(status.message(), absl::StrCat("devices: expected 1 to 8 of machine test, found ", devices));
  }
  Program none;
  none.device_count = 0;
  EXPECT_TRUE(absl::IsFailedPrecondition(Simulate(none, machine).status()));
}

// Each row makes one number wrong of a machine that has them all.
TEST(Simulate, MachinesMadeInCppAreChecked) {
  Case c(2);
  c.Send(0, c.Bytes(0, 4), 1, c.Bytes(1, 4));
  const Program program = c.Build();
  Machine good = OnASwitch(2);
  good.ops = {{.op = kAllOtherOps, .points = {{.rate = 1e9}}, .batch_curve = {{1, 1}}}};
  good.transfers = {{.operation = "exchange", .points = {{4, 1e-3}}}};
  good.slower = {{.device = good.devices[1], .factor = 2}};
  ASSERT_TRUE(Simulate(program, good).ok()) << Simulate(program, good).status();
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, std::function<void(Machine&)>>> rows = {
      {"flops_per_sec: expected a finite number above 0, found 0", [](Machine& m) { m.flops_per_sec.value = 0; }},
      {"memory_bytes_per_sec: expected", [&](Machine& m) { m.memory_bytes_per_sec.value = nan; }},
      {"launch_sec: expected a finite number of 0 or more, found -1", [](Machine& m) { m.launch_sec.value = -1; }},
      {"skew: expected", [&](Machine& m) { m.skew.value = infinity; }},
      {"steps_in_flight: expected 1 to", [](Machine& m) { m.steps_in_flight = 0; }},
      {"copy_engines: expected 0 to 2, found 3", [](Machine& m) { m.copy_engines = 3; }},
      {"copy_engines: expected 0 to 2, found -1", [](Machine& m) { m.copy_engines = -1; }},
      {"devices_per_host: expected 0 to", [](Machine& m) { m.devices_per_host = -1; }},
      {"ops: *: expected at least one point", [](Machine& m) { m.ops[0].points.clear(); }},
      {"ops: *: expected a finite number above 0, found 0", [](Machine& m) { m.ops[0].points[0].rate = 0; }},
      {"ops: *: expected a finite number above 0", [](Machine& m) { m.ops[0].points[0].shape.groups = 0; }},
      {"ops: *: batch_curve: expected a finite", [](Machine& m) { m.ops[0].batch_curve[0].second = 0; }},
      {"links: d0 to ", [](Machine& m) { m.links[0].bytes_per_sec.value = 0; }},
      {"latency_sec: expected a finite number of 0 or more", [](Machine& m) { m.links[0].latency_sec.value = -1; }},
      {"one_transfer_bytes_per_sec: expected", [&](Machine& m) { m.links[0].one_transfer_bytes_per_sec.value = nan; }},
      {"transfers: exchange: expected at least one point", [](Machine& m) { m.transfers[0].points.clear(); }},
      {"transfers: exchange: expected a finite", [](Machine& m) { m.transfers[0].points[0].first = 0; }},
      {"transfers: exchange: expected a finite", [](Machine& m) { m.transfers[0].points[0].second = 0; }},
      {"slower: d1: expected a finite", [](Machine& m) { m.slower[0].factor = 0; }},
  };
  for (const auto& [message, change] : rows) {
    Machine machine = good;
    change(machine);
    const absl::Status status = Simulate(program, machine).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message << ": " << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(message));
  }
}

template <class M>
concept MakesASimulator = requires(M&& machine) {
  Simulator::Create(std::forward<M>(machine), 1);
};
static_assert(MakesASimulator<const Machine&> && !MakesASimulator<Machine>, "a simulator does not outlive its machine");

// Under each computation of 5 ms the 3 ms are sent that the one before has made.
TEST(Simulate, TasksThatWaitForEachOtherAreADeadlock) {
  Case c(1);
  for (int i = 0; i < 2; ++i) c.Compute(0, c.Bytes(0, 4), 1'000'000);
  Program program = c.Build();
  program.tasks[0].waits = {program::TaskId{1}};
  const absl::Status status = Simulate(program, OnASwitch(1)).status();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("deadlocked"));
}

// Two differences of three steps behind the first tell that steps are steady.
TEST(Simulate, StepsAreSimulatedUntilTheyAreSteadyOrAsManyAsAskedFor) {
  Case c(1);
  c.Compute(0, c.Bytes(0, 4), 1'000'000);
  const Program program = c.Build();
  for (int most : {2, 3, 4, 10}) {
    const absl::StatusOr<Simulation> s = Simulate(program, OnASwitch(1), {.max_steps = most});
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->tasks, std::min(most, 4)) << most;
  }
}

TEST(Simulate, WhatADeviceDoesNotUseOfAStepIsIdle) {
  Case c(2);
  c.Compute(0, c.Bytes(0, 4), 2'000'000);
  c.Compute(1, c.Bytes(1, 4), 5'000'000);
  const Simulation s = Of(c.Build(), OnASwitch(2));
  EXPECT_NEAR(Ms(s.step), 5, kExact);
  EXPECT_NEAR(Ms(s.devices[0].idle), 5 - Ms(s.devices[0].compute), kExact);
  EXPECT_GT(Ms(s.devices[0].idle), 2);
}

// Both move 1 MB; the rate of one is a quarter of the memory's.
TEST(Simulate, OpsOfEqualWorkMayTakeDifferentTimes) {
  Case c(1);
  const BufferId x = c.Bytes(0, 4);
  c.Compute(0, x, 1'000'000);
  c.Compute(0, x, 1'000'000);
  Program program = c.Build();
  std::get<program::Compute>(program.tasks[1].body).op = program::Copy{};
  Machine machine = OnASwitch(1);
  machine.ops = {{.op = "copy", .unit = OpRate::Unit::kBytes, .points = {{.rate = 0.25e9}}}};
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 1 + 4, kExact);
}

TEST(Simulate, ATransferThatWasMeasuredTakesWhatItTookThen) {
  Machine machine = OnASwitch(2);
  machine.transfers = {{.operation = "all_reduce", .members = 2, .points = {{4'000'000, 0.007}}},
                       {.operation = "exchange", .members = 2, .points = {{4'000'000, 0.009}}}};
  Case sum(2), send(2);
  sum.AllReduce({sum.Bytes(0, 4'000'000), sum.Bytes(1, 4'000'000)});
  EXPECT_NEAR(Ms(Of(sum.Build(), machine).first_step), 7, kExact);
  send.Send(0, send.Bytes(0, 4'000'000), 1, send.Bytes(1, 4'000'000));
  EXPECT_NEAR(Ms(Of(send.Build(), machine).first_step), 9, kExact);
}

TEST(Simulate, WhatRunsWhereTheMeasuredStepEndsCountsAsWhatRanWhereItBegan) {
  Case c(2);
  const BufferId x = c.Bytes(0, 3'000'000);
  c.Compute(0, x, 5'000'000);
  c.Send(0, x, 1, c.Bytes(1, 3'000'000));
  Program program = c.Build();
  program.tasks[1].waits = {program::TaskId{0}};
  const Simulation s = Of(program, OnASwitch(2));
  EXPECT_NEAR(Ms(s.step), 5, kExact);
  EXPECT_NEAR(Ms(s.devices[0].compute), 5, kExact);
  EXPECT_NEAR(Ms(s.devices[0].exposed_communication), 0, kExact);
  EXPECT_NEAR(Ms(s.devices[0].idle), 0, kExact);
  EXPECT_NEAR(Ms(s.devices[1].exposed_communication), 5, kExact) << "it waits for what comes";
}

}  // namespace
}  // namespace colonnade::engine
