// Times of transfers that the published formulas leave out: sums between phases, loads and stores, staged pairs.
#include "engine/simulator/transfer_phases.h"

#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "engine/simulator.h"
#include "engine/simulator/cost_model.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/on_a_switch.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::Builder;
using program::CollectiveKind;
using program::Lane;

constexpr int64_t kBytes = 4'000'000;  // 4 ms on a link, and in memory

double MsOf(Builder builder, const Machine& machine) {
  const absl::StatusOr<Simulation> simulation = Simulate(std::move(builder).Build(), machine);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? absl::ToDoubleMilliseconds(simulation->first_step) : -1;
}

Builder Empty(int devices) { return Builder("case", program::Mode::kTrain, 1, program::DType::kF32, {{"data", devices}}); }

double SummedBytes(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  double bytes = 0;
  for (const Phase& phase : MakePhases(kind, algorithm, {0, 1, 2, 3}, 100)) bytes += phase.summed_bytes;
  return bytes;
}

TEST(MakePhases, OnlyARootThatReceivesWholeOperandsSumsBeyondWhatHidesBehindTheFlows) {
  for (CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kReduce}) {
    EXPECT_EQ(SummedBytes(kind, CollectiveAlgorithm::kMaster), 300) << program::Name(kind);
    EXPECT_EQ(SummedBytes(kind, CollectiveAlgorithm::kRing), 0) << program::Name(kind);
    EXPECT_EQ(SummedBytes(kind, CollectiveAlgorithm::kTree), 0) << program::Name(kind);
  }
  EXPECT_EQ(SummedBytes(CollectiveKind::kReduce, CollectiveAlgorithm::kDirect), 300);
  EXPECT_EQ(SummedBytes(CollectiveKind::kBroadcast, CollectiveAlgorithm::kMaster), 0);
  EXPECT_EQ(SummedBytes(CollectiveKind::kAllGather, CollectiveAlgorithm::kMaster), 0);
}

// Gather 4 ms, then the sum, which reads two operands and writes one: 12 ms, then 4 ms back.
TEST(Simulate, AMasterSumsBeforeItSendsBack) {
  Builder builder = Empty(2);
  std::vector<program::Member> members;
  for (int d : {0, 1}) {
    members.push_back({{builder.Accumulate(builder.AddBuffer(d, "x", program::DType::kF32, {kBytes / 4}))}, {}});
  }
  builder.AddCollective(builder.AddGroup({0, 1}), {.kind = CollectiveKind::kAllReduce}, std::move(members), Lane::kComm,
                        {"sum"});
  Machine machine = OnASwitch(2);
  machine.collectives = CollectiveAlgorithm::kMaster;
  EXPECT_NEAR(MsOf(std::move(builder), machine), 4 + 12 + 4, 1e-6);
}

TEST(Simulate, LoadsAndStoresTakeTheLatencyAndTheRateOfTheWayToTheHost) {
  Machine machine = OnASwitch(1, 0.25 * kMs);
  machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {0.5e9}, .latency_sec = {0.5 * kMs}});
  machine.launch_sec.value = 0.125 * kMs;
  Builder loads = Empty(1), stores = Empty(1);
  const BufferId x = loads.AddBuffer(0, "x", program::DType::kF32, {kBytes / 4});
  loads.AddCompute(0, Lane::kCopy, program::Load{0}, {loads.Write(x)}, 0, {"x"});
  EXPECT_NEAR(MsOf(std::move(loads), machine), 0.125 + 0.75 + 8, 1e-6);
  const BufferId y = stores.AddBuffer(0, "y", program::DType::kF32, {kBytes / 4});
  stores.AddCompute(0, Lane::kCopy, program::Store{0}, {stores.Read(y)}, 0, {"y"});
  EXPECT_NEAR(MsOf(std::move(stores), machine), 0.125 + 0.75 + 8, 1e-6);
}

// A pair without peer access goes through the host in two halves, whichever of the two is named first, and others do not.
TEST(Simulate, AStagedPairIsStagedBothWays) {
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}, {0, 2}}) {
    Builder builder = Empty(3);
    const BufferId x = builder.AddBuffer(from, "x", program::DType::kF32, {kBytes / 4}),
                   y = builder.AddBuffer(to, "y", program::DType::kF32, {kBytes / 4});
    builder.AddExchange(from, {{builder.Read(x)}, {.bytes_sent = kBytes}}, to, {{builder.Write(y)}, {}}, Lane::kComm,
                        {"send"});
    Machine machine = OnASwitch(3, 0.25 * kMs);
    machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {0.5e9}, .latency_sec = {0.5 * kMs}});
    machine.staged = {{"d1", "d0"}};
    EXPECT_NEAR(MsOf(std::move(builder), machine), to == 2 ? 0.5 + 4 : 2 * (0.75 + 8), 1e-6) << from << " to " << to;
  }
}

TEST(MakePhases, WhatBothTreesSendOneWayIsOneFlow) {
  for (const auto& [members, flows] : {std::pair{2, 2u}, {3, 6u}, {8, 28u}}) {
    std::vector<int> group(members);
    std::iota(group.begin(), group.end(), 0);
    const std::vector<Phase> phases = MakePhases(CollectiveKind::kAllReduce, CollectiveAlgorithm::kTree, group, 8);
    ASSERT_EQ(phases.size(), 1u);
    std::set<std::pair<int, int>> ways;
    double bytes = 0;
    for (const Flow& flow : phases[0].flows) {
      EXPECT_TRUE(ways.emplace(flow.from, flow.to).second) << flow.from << " to " << flow.to << " of " << members;
      bytes += flow.bytes;
    }
    EXPECT_EQ(bytes, 2.0 * (members - 1) * 8);
    EXPECT_LE(ways.size(), flows);
  }
}

// A ring of two sends S each way, and so does a tree: no more than the cap in each.
TEST(CollectiveSeconds, ACapOnATransferIsOneOnAllThatATreeSendsOneWay) {
  Machine machine = OnASwitch(2);
  for (Link& link : machine.links) link.one_transfer_bytes_per_sec.value = 0.25e9;
  const Routes routes = *Routes::Create(machine);
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree}) {
    machine.collectives = algorithm;
    EXPECT_NEAR(CostModel(machine, 2).CollectiveSeconds(routes, CollectiveKind::kAllReduce, 2, 1e9), 4, 1e-9)
        << Name(algorithm);
  }
}

}  // namespace
}  // namespace colonnade::engine
