// A profile of what was seen on a machine predicts what steps take there.
#include "tools/measured_profile.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/moves_bytes.h"
#include "tests/tools/simulated_run.h"

namespace colonnade::tools {
namespace {

using engine::Origin;

const SimulatedCase kCases[] = {{"lenet", "single", 1, 64},     {"lenet", "data", 2, 64},
                                {"lenet", "model", 2, 64},      {"two_column", "single", 1, 64},
                                {"two_column", "data", 2, 128}, {"two_column", "owt", 2, 64}};

constexpr double kMemoryRate = 5e8, kLinkRate = 3e8;

// The second device is slower, and the host takes its time. Pooling is faster than memory.
engine::Machine TrueMachine() {
  engine::Machine machine = CertainMachine(2);
  machine.memory_bytes_per_sec.value = kMemoryRate;
  for (engine::Link& link : machine.links) link.bytes_per_sec.value = kLinkRate;
  machine.ops = {{.op = "max_pool_forward", .unit = engine::OpRate::Unit::kBytes, .points = {{.rate = 4 * kMemoryRate}}}};
  machine.collectives = engine::CollectiveAlgorithm::kDirect;
  machine.steps_in_flight = 1;
  machine.step_sec.value = 3e-4;
  machine.step_sec_per_task.value = 2e-6;
  machine.step_sec_per_image.value = 5e-6;
  machine.launch_sec.value = 4e-6;
  machine.handoff_sec.value = 7e-6;
  machine.slower = {{machine.devices[1], 1.3}};
  return machine;
}

// What is known of it without measuring, with rates that are wrong.
engine::Machine Known() {
  engine::Machine machine = CertainMachine(2);
  machine.collectives = engine::CollectiveAlgorithm::kDirect;
  machine.steps_in_flight = 1;
  machine.memory_bytes.value = 1e9;
  machine.flops_per_sec.value = 3e10;
  machine.memory_bytes_per_sec.value = 5e10;
  for (engine::Link& link : machine.links) link.bytes_per_sec.value = 7e9;
  return machine;
}

Observations SeenOn(const engine::Machine& machine) {
  Observations seen;
  for (const SimulatedCase& c : kCases) {
    SimulatedRun run = RunOn(machine, c);
    run.host_seconds = {SecondsBetween(run.times[0], run.times[1])};
    run.SeenBy(seen);
  }
  return seen;
}

double StepOn(const engine::Machine& machine, const SimulatedCase& c) {
  return absl::ToDoubleSeconds(RunOn(machine, c).step);
}

TEST(MeasuredProfile, PredictsTheStepsOfTheMachineThatItIsOf) {
  const engine::Machine machine = TrueMachine(), profile = MeasuredProfile(Known(), SeenOn(machine));
  for (const SimulatedCase& c : kCases) {
    const double expected = StepOn(machine, c);
    EXPECT_NEAR(StepOn(profile, c), expected, 0.01 * expected) << c.model << " " << c.plan;
    EXPECT_GT(std::abs(StepOn(Known(), c) - expected), 0.1 * expected) << "without what was seen it would not";
  }
}

TEST(MeasuredProfile, HasWhatTheMachineHasAndSaysThatItIsMeasured) {
  const engine::Machine machine = TrueMachine(), profile = MeasuredProfile(Known(), SeenOn(machine));
  EXPECT_NEAR(profile.step_sec.value, 3e-4, 1e-6);
  EXPECT_NEAR(profile.step_sec_per_task.value, 2e-6, 1e-8);
  EXPECT_NEAR(profile.step_sec_per_image.value, 5e-6, 1e-8);
  EXPECT_EQ(profile.step_sec_per_device.value, 0);
  EXPECT_NEAR(profile.handoff_sec.value, 7e-6, 2e-7);
  ASSERT_EQ(profile.slower.size(), 1u);
  EXPECT_EQ(profile.slower[0].device, machine.devices[1]);
  EXPECT_NEAR(profile.slower[0].factor, 1.3, 1e-3);
  for (const engine::Quantity& number :
       {profile.step_sec, profile.step_sec_per_task, profile.step_sec_per_image, profile.launch_sec, profile.handoff_sec,
        profile.skew, profile.flops_per_sec, profile.memory_bytes_per_sec, profile.links[1].bytes_per_sec}) {
    EXPECT_EQ(number.origin, Origin::kMeasured) << number.source;
    EXPECT_FALSE(number.source.empty());
  }
  EXPECT_TRUE(engine::CheckNumbers(profile).ok());
}

TEST(MeasuredProfile, WhatWasNotSeenIsAsFastAsTheFastestThatWas) {
  const engine::Machine profile = MeasuredProfile(Known(), SeenOn(TrueMachine()));
  double flops = 0;
  for (const engine::OpRate& op : profile.ops) {
    for (const engine::OpRate::Point& point : op.points) {
      if (op.unit == engine::OpRate::Unit::kFlops) flops = std::max(flops, point.rate);
    }
  }
  EXPECT_GT(flops, 0);
  EXPECT_EQ(profile.flops_per_sec.value, flops);
  EXPECT_NEAR(profile.memory_bytes_per_sec.value, kMemoryRate, 1e-2 * kMemoryRate);
  for (const engine::Link& link : profile.links) EXPECT_NEAR(link.bytes_per_sec.value, kLinkRate, 1e-2 * kLinkRate);
}

TEST(MeasuredProfile, OfOneDeviceGuessesItsLinks) {
  Observations seen;
  const SimulatedRun run = RunOn(CertainMachine(1), {.plan = "single", .devices = 1});
  run.SeenBy(seen);
  const engine::Machine profile = MeasuredProfile(Known(), seen);
  for (const engine::Link& link : profile.links) {
    EXPECT_EQ(link.bytes_per_sec.origin, Origin::kGuess);
    EXPECT_GT(link.bytes_per_sec.value, 0);
  }
  EXPECT_EQ(profile.memory_bytes_per_sec.origin, Origin::kMeasured);
  EXPECT_TRUE(engine::CheckNumbers(profile).ok());
}

// A clock that is too coarse for what it times measures infinite rates.
TEST(MeasuredProfile, HasNoRateThatAProfileMayNotState) {
  Observations seen = SeenOn(TrueMachine());
  seen.AddTransfer({.operation = "exchange", .members = 2, .bytes = 1e9, .seconds = 1e-9});
  const auto read = engine::MachineFromJson(engine::MachineToJson(MeasuredProfile(Known(), seen)));
  EXPECT_TRUE(read.ok()) << read.status();
}

TEST(MeasuredProfile, HasWhatTheHostTakesForEachDevice) {
  engine::Machine machine = TrueMachine();
  machine.step_sec.value = machine.step_sec_per_image.value = 0;
  machine.step_sec_per_device.value = 4e-4;
  const engine::Machine profile = MeasuredProfile(Known(), SeenOn(machine));
  EXPECT_NEAR(profile.step_sec_per_device.value, 4e-4, 1e-6);
  EXPECT_EQ(profile.step_sec_per_device.origin, Origin::kMeasured);
}

TEST(MeasuredProfile, HoldsTheInputWhereItWasTimed) {
  const Observations seen = SeenOn(TrueMachine());
  const engine::Machine profile = MeasuredProfile(
      Known(), seen, InputSpeed{.images_per_sec = 900, .host_sec_per_image = 2e-6, .source = "digits", .within = 1.2});
  EXPECT_EQ(profile.input_images_per_sec.value, 900);
  EXPECT_EQ(profile.input_images_per_sec.within, 1.2);
  EXPECT_EQ(profile.input_images_per_sec.source, "digits");
  EXPECT_NEAR(profile.step_sec_per_image.value, 7e-6, 1e-8) << "what the host takes, and the copy";
  EXPECT_THAT(profile.step_sec_per_image.source, testing::EndsWith(", and copying an image into a step: digits"));
  EXPECT_EQ(MeasuredProfile(Known(), seen).input_images_per_sec.value, 0);
}

// Steps of one Program that take 1, 2 and 3 ms tell no error; those of several Programs do.
TEST(MeasuredProfile, SaysHowSureItIsOfWhatTheHostTakes) {
  Observations seen;
  double milliseconds = 1;
  for (const SimulatedCase& c : kCases) {
    SimulatedRun run = RunOn(TrueMachine(), c);
    const auto tasks = static_cast<double>(run.program.tasks.size());
    run.host_seconds = {tasks * 1e-5 * (milliseconds += 0.01)};
    run.SeenBy(seen);
  }
  const HostFit fit = seen.host();
  ASSERT_GT(fit.standard_errors.sec_per_task, 0);
  const engine::Quantity per_task = MeasuredProfile(Known(), seen).step_sec_per_task;
  EXPECT_EQ(per_task.value, fit.terms.sec_per_task);
  EXPECT_DOUBLE_EQ(per_task.within, 1 + 2 * fit.standard_errors.sec_per_task / fit.terms.sec_per_task);
}

// Where devices share cores, those are what slows compute beside transfers.
TEST(MeasuredProfile, ComputeIsSlowerBesideTransfersWhereDevicesShareNoCores) {
  engine::Machine machine = TrueMachine(), known = Known();
  machine.overlap_slowdown.value = 0.5;
  machine.launch_sec.value = machine.handoff_sec.value = 0;
  Observations seen = SeenOn(machine);
  const SimulatedRun run = RunOn(machine, {.overlap = true});
  const std::vector<double> step_seconds(run.times.size(), 1);
  seen.AddOverlapped({run.program, run.times, step_seconds, run.host_seconds});
  EXPECT_NEAR(MeasuredProfile(known, seen).overlap_slowdown.value, 0.5, 1e-3);
  known.cores.value = 2;
  EXPECT_EQ(MeasuredProfile(known, seen).overlap_slowdown.value, 0);
}

}  // namespace
}  // namespace colonnade::tools
