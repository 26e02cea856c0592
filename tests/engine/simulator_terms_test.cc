// What a machine may add to the simulator's plain case: inputs and hosts that limit, transfers that slow compute, pieces, a
// server, slower devices. All times are exact.
#include <utility>
#include <vector>

#include "engine/simulator.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/routes.h"
#include "engine/simulator/transfer_phases.h"
#include "gtest/gtest.h"
#include "program/representative_program.h"
#include "tests/engine/on_a_switch.h"
#include "tests/engine/simulated_case.h"
#include "tests/program/each_for_itself.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::CollectiveKind;
using program::Lane;
using program::Program;

// A computation of 10 ms on device 0; a transfer of 4 ms from device 1, which computes before it.
Program ComputeBesideATransfer(int64_t ms_before_the_transfer) {
  Case c(2);
  const BufferId x = c.Bytes(1, 4'000'000), y = c.Bytes(0, 4'000'000);
  c.Compute(0, c.Bytes(0, 4, "p"), 10'000'000);
  c.Compute(1, x, 1'000'000 * ms_before_the_transfer);
  c.Send(1, x, 0, y);
  Program program = c.Build();
  program.tasks[2].waits = {program::TaskId{1}};
  return program;
}

// Half as long again: in the 4 ms of the transfer 4 / 1.5 ms of compute are done. Nothing else changes.
TEST(OverlapSlowdown, ComputeTakesLongerWhileItsDeviceTransfers) {
  Machine machine = OnASwitch(2);
  machine.steps_in_flight = 1;
  for (int64_t before : {0, 1, 3, 20}) {
    const Program program = ComputeBesideATransfer(before);
    machine.overlap_slowdown.value = 0;
    EXPECT_NEAR(Ms(Of(program, machine).first_step), before == 20 ? 24 : 10, 1e-6);
    machine.overlap_slowdown.value = 0.5;
    EXPECT_NEAR(Ms(Of(program, machine).first_step), before == 20 ? 24 : 10 + 4 - 4 / 1.5, 1e-6) << before;
  }
}

// The second of two computations begins while the transfer runs, and goes on after it.
TEST(OverlapSlowdown, HoldsForWhatBeginsBesideATransfer) {
  Case c(2);
  const BufferId p = c.Bytes(0, 4, "p");
  c.Send(1, c.Bytes(1, 4'000'000), 0, c.Bytes(0, 4'000'000));
  c.Compute(0, p, 1'000'000);
  c.Compute(0, p, 5'000'000);
  Machine machine = OnASwitch(2);
  machine.steps_in_flight = 1;
  machine.overlap_slowdown.value = 0.5;
  // 1.5 ms, then 2.5 ms at two thirds, then the rest.
  EXPECT_NEAR(Ms(Of(c.Build(), machine).first_step), 1.5 + 2.5 + (5 - 2.5 / 1.5), 1e-6);
}

// Both devices send to device 0, one after the other begins: what it computes is slowed once.
TEST(OverlapSlowdown, OfTwoTransfersIsThatOfOne) {
  Case c(3);
  c.Compute(0, c.Bytes(0, 4, "p"), 10'000'000);
  c.Compute(2, c.Bytes(2, 4, "p"), 1'000'000);
  c.Send(1, c.Bytes(1, 2'000'000), 0, c.Bytes(0, 2'000'000));
  c.Send(2, c.Bytes(2, 2'000'000), 0, c.Bytes(0, 2'000'000, "y"));
  Program program = c.Build();
  for (program::Task& task : program.tasks) {
    if (task.device == 0 && task.id.value >= 4) task.lane = Lane::kCopy;
  }
  Machine machine = OnASwitch(3);
  machine.steps_in_flight = 1;
  machine.overlap_slowdown.value = 0.5;
  // The transfers share the link to device 0 for 4 ms.
  EXPECT_NEAR(Ms(Of(program, machine).first_step), 4 + (10 - 4 / 1.5), 1e-6);
}

// A batch of eight images for a computation of 5 ms.
Program OfEightImages() {
  Case c(1);
  c.LoadAndCompute(c.Loaded(4'000), Lane::kLoad);
  Program program = c.Build();
  program.inputs.push_back({.name = "images", .host_dtype = program::DType::kF32, .shape = {8, 125}, .pieces = {}});
  program.tasks[1].waits = {program::TaskId{0}};
  return program;
}

TEST(InputRate, AStepTakesNoLessThanItsBatch) {
  Machine machine = OnASwitch(1);
  machine.links.push_back({.a = "host", .b = "switch", .bytes_per_sec = {1e12}});
  machine.input_images_per_sec.value = 2000;
  EXPECT_NEAR(Ms(Of(OfEightImages(), machine).step), 5, 1e-6);
  machine.input_images_per_sec.value = 1000;
  const Simulation s = Of(OfEightImages(), machine);
  EXPECT_NEAR(Ms(s.step), 8, 1e-6);
  EXPECT_NEAR(Ms(s.first_step), 8 + 5, 0.01) << "the first batch is made first";
  EXPECT_NEAR(Ms(s.devices[0].compute), 5, 1e-6);
  EXPECT_NEAR(Ms(s.devices[0].input_wait), 3, 1e-6);
}

TEST(InputRate, WhereCoresAreSharedItTakesThem) {
  Machine machine = OnASwitch(1);
  machine.cores.value = 2;
  machine.input_images_per_sec.value = 2000;
  // 4 ms of both cores and 5 ms of two: one after the other in effect.
  EXPECT_NEAR(Ms(Of(OfEightImages(), machine).step), 4 + 5, 0.01);
}

TEST(InputRate, HoldsForLoadsInLine) {
  for (Lane lane : {Lane::kCompute, Lane::kCopy}) {
    Machine machine = OnASwitch(1);
    machine.input_images_per_sec.value = 1000;
    Case c(1);
    c.LoadAndCompute(c.Bytes(0, 4'000), lane);
    Program program = c.Build();
    program.inputs.push_back({.name = "images", .host_dtype = program::DType::kF32, .shape = {8, 125}, .pieces = {}});
    program.tasks[1].waits = {program::TaskId{0}};
    EXPECT_NEAR(Ms(Of(program, machine).step), 8, 0.01);
  }
}

// While the host enqueues, five threads share four cores: its work takes a quarter of its time from 5 ms of compute. As long
// as it enqueues steps ahead it always works, and a step takes 6.25 ms; with 4.5 ms that is a tenth of a step in each.
TEST(Host, WhereCoresAreSharedAStepIsSteadyOnceNoMoreStepsAreAhead) {
  Case c(1);
  c.Compute(0, c.Bytes(0, 4'000), 5'000'000);
  const Program program = c.Build();
  Machine machine = OnASwitch(1);
  machine.cores.value = 4;
  for (const auto& [of_host_ms, steps] : {std::pair(2.0, 2), {2.0, 16}, {4.5, 4}}) {
    machine.step_sec.value = of_host_ms / 1e3;
    machine.steps_in_flight = steps;
    EXPECT_NEAR(Ms(Of(program, machine).step), 5 + of_host_ms / 4, 1e-6) << steps;
  }
}

TEST(HostSeconds, AddsImagesAndTasksOfOneHost) {
  Machine machine;
  machine.step_sec.value = 1;
  machine.step_sec_per_device.value = 0.1;
  machine.step_sec_per_image.value = 0.01;
  machine.step_sec_per_task.value = 0.001;
  EXPECT_NEAR(HostSeconds(machine, 8, 400, 800), 1 + 0.8 + 4 + 0.8, 1e-9);
  machine.devices_per_host = 2;
  EXPECT_NEAR(HostSeconds(machine, 8, 400, 800), 1 + 0.2 + 1 + 0.2, 1e-9);
  machine.devices_per_host = 16;
  EXPECT_NEAR(HostSeconds(machine, 8, 400, 800), 1 + 0.8 + 4 + 0.8, 1e-9);
}

TEST(HostSeconds, LimitAStep) {
  Machine machine = OnASwitch(1);
  machine.step_sec_per_image.value = 0.5 * kMs;
  machine.step_sec_per_task.value = 1.5 * kMs;
  EXPECT_NEAR(Ms(Of(OfEightImages(), machine).step), 8 * 0.5 + 2 * 1.5, 1e-6);
}

// d0 to the host at 1 GB/s, on to d1 at half of that.
TEST(StagingPieces, TheSecondHalfFollowsTheFirstByAPiece) {
  Machine machine = OnASwitch(2);
  machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {1e9}});
  machine.links[1].bytes_per_sec.value = 0.5e9;
  machine.peer_access = false;
  const auto ms = [&](int64_t bytes) {
    Case c(2);
    c.Send(0, c.Bytes(0, bytes), 1, c.Bytes(1, bytes));
    return Ms(Of(c.Build(), machine).first_step);
  };
  EXPECT_NEAR(ms(4'000'000), 4 + 8, 1e-6);
  machine.staging_piece_bytes.value = 500'000;
  EXPECT_NEAR(ms(4'000'000), 0.5 + 8, 1e-6);
  EXPECT_NEAR(ms(200'000), 0.2 + 0.4, 1e-6) << "less than a piece";
  // Over one half-duplex link to the host the halves take turns, so that pieces gain nothing.
  machine.links.back().duplex = Link::Duplex::kHalf;
  EXPECT_NEAR(ms(4'000'000), 8, 1e-6);
}

// All operands go up and all sums come down at once; what the server adds is all of them together.
// 4 MB one way and a fortieth of that back: the first piece of the larger is what its way waits for.
TEST(StagingPieces, AreOfEachFlow) {
  Machine machine = OnASwitch(2);
  machine.links.push_back({.a = "switch", .b = "host", .bytes_per_sec = {1e9}});
  machine.peer_access = false;
  machine.staging_piece_bytes.value = 500'000;
  program::Builder builder("case", program::Mode::kTrain, 1, program::DType::kF32, {{"data", 2}});
  const auto buffer = [&](int device, const char* name, int64_t bytes) {
    return builder.AddBuffer(device, name, program::DType::kF32, {bytes / 4});
  };
  const BufferId x = buffer(0, "x", 4'000'000), y = buffer(1, "y", 4'000'000), b = buffer(1, "b", 100'000),
                 t = buffer(0, "t", 100'000);
  builder.AddExchange(0, {{builder.Read(x), builder.Write(t)}, {.bytes_written = 100'000, .bytes_sent = 4'000'000}}, 1,
                      {{builder.Read(b), builder.Write(y)}, {.bytes_written = 4'000'000, .bytes_sent = 100'000}},
                      Lane::kComm, {"halo"});
  EXPECT_NEAR(Ms(Of(std::move(builder).Build(), machine).first_step), 0.5 + 4.1, 1e-6) << "both ways share the host's link";
}

TEST(Server, TakesAsLongAsItsLinksAndItsAdding) {
  const auto ms = [](double adds_bytes_per_sec) {
    Case c(4);
    std::vector<BufferId> xs;
    for (int d = 0; d < 4; ++d) xs.push_back(c.Bytes(d, 12'000'000));
    c.AllReduce(xs);
    Machine machine = OnASwitch(4, 0.5 * kMs);
    machine.collectives = CollectiveAlgorithm::kServer;
    machine.server = "switch";
    machine.server_bytes_per_sec.value = adds_bytes_per_sec;
    return Ms(Of(c.Build(), machine).first_step);
  };
  EXPECT_NEAR(ms(0), 2 * 0.5 + 12, 1e-6);
  EXPECT_NEAR(ms(2e9), 2 * 0.5 + 24, 1e-6);
}

TEST(Server, MovesWhatEachCollectiveNeeds) {
  const std::vector<int> four = {0, 1, 2, 3};
  const auto moved = [&](CollectiveKind kind, int device) {
    double sent = 0, received = 0;
    for (const Phase& phase : MakePhases(kind, CollectiveAlgorithm::kServer, {2, 3, 0, 1}, 100)) {
      for (const Flow& flow : phase.flows) {
        EXPECT_TRUE(flow.from == kServer || flow.to == kServer);
        (flow.from == device ? sent : received) += flow.from == device || flow.to == device ? flow.bytes : 0;
      }
    }
    return std::pair(sent, received);
  };
  for (int device : four) {
    EXPECT_EQ(moved(CollectiveKind::kAllReduce, device), std::pair(100.0, 100.0));
    EXPECT_EQ(moved(CollectiveKind::kReduceScatter, device), std::pair(100.0, 25.0));
    EXPECT_EQ(moved(CollectiveKind::kAllGather, device), std::pair(100.0, 400.0));
    const bool is_root = device == 2;
    EXPECT_EQ(moved(CollectiveKind::kReduce, device), is_root ? std::pair(0.0, 100.0) : std::pair(100.0, 0.0));
    EXPECT_EQ(moved(CollectiveKind::kBroadcast, device), is_root ? std::pair(100.0, 0.0) : std::pair(0.0, 100.0));
  }
}

// The switch takes an operand and a part of each, and gives as much; it is chosen where that is faster than a ring.
TEST(Switch, AddsWhereThatIsFaster) {
  const auto ms = [](int devices, double switch_bytes_per_sec, CollectiveAlgorithm algorithm) {
    Case c(devices);
    std::vector<BufferId> xs;
    for (int d = 0; d < devices; ++d) xs.push_back(c.Bytes(d, 12'000'000));
    c.AllReduce(xs);
    Machine machine = OnASwitch(devices);
    machine.collectives = algorithm;
    machine.switch_bytes_per_sec.value = switch_bytes_per_sec;
    return Ms(Of(c.Build(), machine).first_step);
  };
  using enum CollectiveAlgorithm;
  EXPECT_NEAR(ms(4, 0, kFastest), 18, 1e-6);
  EXPECT_NEAR(ms(4, 1e9, kFastest), 15, 1e-6);
  EXPECT_NEAR(ms(4, 0.9e9, kFastest), 15 / 0.9, 1e-6);
  EXPECT_NEAR(ms(2, 1e9, kFastest), 12, 1e-6) << "a ring of two";
  EXPECT_NEAR(ms(4, 2.1e9, kFastest), 18, 1e-6) << "links slower than the switch are others";
  EXPECT_NEAR(ms(4, 1e9, kRing), 18, 1e-6);
}

// Two nodes of eight have no switch in common.
TEST(Switch, IsOneOfAllMembers) {
  Machine machine = InNodes(16);
  machine.collectives = CollectiveAlgorithm::kFastest;
  const Routes routes = *Routes::Create(machine);
  const auto forms = [&](const std::vector<int>& group) {
    int in_switch = 0;
    for (const CostModel::CollectiveSchedule& schedule :
         CostModel(machine, 16).SchedulesFor(routes, CollectiveKind::kAllReduce, group, 0)) {
      in_switch += schedule.form == CostModel::CollectiveSchedule::Form::kInSwitch;
    }
    return in_switch;
  };
  machine.switch_bytes_per_sec.value = 1e9;
  EXPECT_EQ(forms({0, 1, 2, 3}), 1);
  EXPECT_EQ(forms({0, 1, 8, 9}), 0);
  // Each two have a switch in common, but not all three.
  Machine triangle;
  triangle.name = "triangle";
  triangle.devices = {"a", "b", "c"};
  triangle.collectives = CollectiveAlgorithm::kFastest;
  triangle.switch_bytes_per_sec.value = 1e9;
  for (const auto& [device, node] : {std::pair{"a", "s"}, {"b", "s"}, {"b", "t"}, {"c", "t"}, {"a", "u"}, {"c", "u"}}) {
    triangle.links.push_back({.a = device, .b = node, .bytes_per_sec = {1e9}, .latency_sec = {}});
  }
  const Routes between = *Routes::Create(triangle);
  for (const CostModel::CollectiveSchedule& schedule :
       CostModel(triangle, 3).SchedulesFor(between, CollectiveKind::kAllReduce, {0, 1, 2}, 0)) {
    EXPECT_NE(schedule.form, CostModel::CollectiveSchedule::Form::kInSwitch);
  }
  machine.switch_bytes_per_sec.value = 0;
  EXPECT_EQ(forms({0, 1, 2, 3}), 0);
}

TEST(SlowerDevice, TakesAsMuchLongerAsItIsSaid) {
  Case c(2);
  for (int d : {0, 1}) c.Compute(d, c.Bytes(d, 4), 2'000'000);
  const Program program = c.Build();
  Machine machine = OnASwitch(2);
  machine.slower = {{"d1", 1.5}};
  const Simulation s = Of(program, machine);
  EXPECT_NEAR(Ms(s.step), 3, 1e-6);
  EXPECT_NEAR(Ms(s.devices[0].compute), 2, 1e-6);
  // One that stands for several takes as long as the slowest of them.
  program::RepresentativeProgram representatives = program::EachForItself(program);
  ASSERT_EQ(representatives.stands_for.size(), 2u);
  representatives.stands_for = {{0, 1}, {}};
  std::erase_if(representatives.program.tasks, [](const program::Task& task) { return task.device == 1; });
  const absl::StatusOr<Simulation> both = Simulate(representatives, machine);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_NEAR(Ms(both->step), 3, 1e-6);
}

}  // namespace
}  // namespace colonnade::engine
