// What calibration takes from the times of tasks: from simulated runs, whose machine says what is to come out.
#include "tools/observations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/meetings.h"
#include "tests/tools/moves_bytes.h"
#include "tests/tools/simulated_run.h"

namespace colonnade::tools {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

void SeeOn(const engine::Machine& machine, Observations& seen) {
  for (bool overlap : {false, true}) {
    const SimulatedRun run = RunOn(machine, {.overlap = overlap});
    const std::vector<double> step_seconds(run.times.size(), 1);
    const Observations::Run of{run.program, run.times, step_seconds, run.host_seconds};
    overlap ? seen.AddOverlapped(of) : seen.AddRun(of);
  }
}
Observations ObservationsOn(const engine::Machine& machine) {
  Observations seen;
  SeeOn(machine, seen);
  return seen;
}

TEST(Observations, FindHowMuchTransfersSlowCompute) {
  engine::Machine machine = CertainMachine(2);
  EXPECT_NEAR(ObservationsOn(machine).overlap_slowdown().value_or(-1), 0, 1e-5);
  for (double slowdown : {0.3, 2.0}) {
    machine.overlap_slowdown.value = slowdown;
    EXPECT_NEAR(ObservationsOn(machine).overlap_slowdown().value_or(-1), slowdown, 1e-5 * slowdown);
  }
  machine.slower = {{machine.devices[1], 1.5}};
  EXPECT_NEAR(ObservationsOn(machine).overlap_slowdown().value_or(-1), 2.0, 1e-4) << "of each device by its own times";
}

TEST(Observations, WithoutOverlappedRunsNothingIsKnownOfThem) {
  const SimulatedRun run = RunOn(CertainMachine(2), {});
  Observations seen;
  run.SeenBy(seen);
  EXPECT_EQ(seen.overlap_slowdown(), std::nullopt);
}

TEST(Observations, FindLaunchesAndHandoffs) {
  engine::Machine machine = CertainMachine(2);
  machine.handoff_sec.value = 5e-6;
  Observations seen;
  SeeOn(machine, seen);
  EXPECT_NEAR(seen.launch_sec(), 0, 1e-9);
  EXPECT_NEAR(seen.handoff_sec(), 5e-6, 1e-9);
  EXPECT_NEAR(seen.handoff_within(), 1, 1e-3);
  machine.handoff_sec.value = 20e-6;
  SeeOn(machine, seen);
  EXPECT_NEAR(seen.handoff_sec(), 12.5e-6, 1e-6) << "about half of them";
  EXPECT_NEAR(seen.handoff_within(), 2, 1e-3);
}

// Of steps of two networks with two batches, on one device and on two.
HostTerms HostOn(const engine::Machine& machine) {
  Observations seen;
  for (const char* model : {"lenet", "two_column"}) {
    for (const SimulatedCase& c : {SimulatedCase{model, "single", 1, 64}, SimulatedCase{model, "single", 1, 128},
                                   SimulatedCase{model, "data", 2, 64}, SimulatedCase{model, "model", 2, 128}}) {
      SimulatedRun run = RunOn(machine, c);
      run.host_seconds = {SecondsBetween(run.times[0], run.times[1])};
      run.SeenBy(seen);
    }
  }
  return seen.host().terms;
}

TEST(Observations, FindWhatTheHostTakes) {
  engine::Machine machine = CertainMachine(2);
  machine.steps_in_flight = 1;
  machine.step_sec.value = 3e-4;
  machine.step_sec_per_task.value = 2e-6;
  machine.step_sec_per_image.value = 5e-6;
  HostTerms host = HostOn(machine);
  EXPECT_NEAR(host.step_sec, 3e-4, 1e-7);
  EXPECT_NEAR(host.sec_per_task, 2e-6, 1e-9);
  EXPECT_NEAR(host.sec_per_image, 5e-6, 1e-9);
  EXPECT_EQ(host.sec_per_device, 0);
  machine.step_sec.value = machine.step_sec_per_image.value = 0;
  machine.step_sec_per_device.value = 4e-4;
  host = HostOn(machine);
  EXPECT_NEAR(host.sec_per_device, 4e-4, 1e-7);
  EXPECT_NEAR(host.sec_per_task, 2e-6, 1e-9);
  EXPECT_EQ(host.step_sec, 0);
  EXPECT_EQ(host.sec_per_image, 0);
}

TEST(Observations, TheHostTakesTheMedianOfItsSteps) {
  const SimulatedRun run = RunOn(CertainMachine(2), {});
  Observations seen;
  run.SeenBy(seen);
  EXPECT_DOUBLE_EQ(seen.host().terms.sec_per_task, 2e-3 / static_cast<double>(run.program.tasks.size()))
      << "of 1, 2 and 9 ms; one Program tells no other term from tasks";
}

Observations SeenOfTwoPlans(const engine::Machine& machine) {
  Observations seen;
  for (const char* plan : {"data", "model"}) {
    const SimulatedRun run = RunOn(machine, {.plan = plan});
    run.SeenBy(seen);
  }
  return seen;
}

TEST(Observations, FindSlowerDevicesAndTheRatesOfTheFastest) {
  const Observations alike = SeenOfTwoPlans(CertainMachine(2));
  EXPECT_THAT(alike.Slowness(), ElementsAre(1, 1));
  for (int slower : {0, 1}) {
    engine::Machine machine = CertainMachine(2);
    machine.slower = {{machine.devices[slower], 1.3}};
    const Observations seen = SeenOfTwoPlans(machine);
    EXPECT_THAT(seen.Slowness(),
                ElementsAre(DoubleNear(slower == 0 ? 1.3 : 1, 1e-5), DoubleNear(slower == 1 ? 1.3 : 1, 1e-5)));
    const std::vector<engine::OpRate> rates = seen.Rates(), expected = alike.Rates();
    ASSERT_EQ(rates.size(), expected.size());
    for (size_t op = 0; op < rates.size(); ++op) {
      for (size_t p = 0; p < rates[op].points.size(); ++p) {
        const double rate = expected[op].points[p].rate;
        EXPECT_NEAR(rates[op].points[p].rate, rate, 2e-3 * rate) << rates[op].op;
      }
    }
  }
}

// Of eight steps three take the kernels' times, two more a tenth longer and three a fifth: quartiles of 1 and 1.2.
TEST(Observations, SayHowFarTheMiddleHalfOfTheTimesLiesApart) {
  engine::Machine machine = CertainMachine(2);
  SimulatedRun run = RunOn(machine, {});
  run.times.resize(1);
  const auto add = [&](double factor, int times) {
    machine.slower = {{machine.devices[0], factor}, {machine.devices[1], factor}};
    run.times.insert(run.times.end(), times, RunOn(machine, {}).times[0]);
  };
  add(1, 2), add(1.1, 2), add(1.2, 3);
  const auto see = [&](size_t steps) {
    SimulatedRun first = run;
    first.times.resize(steps);
    Observations seen;
    return first.SeenBy(seen);
  };
  for (const engine::OpRate& rate : see(8).Rates()) EXPECT_NEAR(rate.within, std::sqrt(1.2), 2e-3) << rate.op;
  for (const engine::MeasuredTransfer& transfer : see(8).Transfers())
    EXPECT_NEAR(transfer.within, 1, 1e-6) << transfer.operation;
  // One step is one time of each kernel on each device, too few where it comes once.
  const std::vector<engine::OpRate> of_one = see(1).Rates();
  EXPECT_TRUE(std::any_of(of_one.begin(), of_one.end(), [](const engine::OpRate& rate) { return rate.within == 0; }));
}

// Something else on the machine makes a step wait now and then, each time in another task. What the tasks take of such
// steps adds up to the step's mean only if steps are left out as a whole.
TEST(Observations, TakeMeansOfAllStepsButTheLongestTenth) {
  SimulatedRun run = RunOn(CertainMachine(1), {.plan = "single", .devices = 1});
  run.times.resize(20, run.times[0]);
  const std::string op = "softmax_cross_entropy_backward";
  const auto rate = [&](const std::vector<double>& step_seconds) {
    Observations seen;
    seen.AddRun({run.program, run.times, step_seconds, run.host_seconds});
    const std::vector<engine::OpRate> rates = seen.Rates();
    return std::find_if(rates.begin(), rates.end(), [&](const auto& of) { return of.op == op; })->points[0].rate;
  };
  const double undisturbed = rate(std::vector<double>(20, 1));
  const auto task = std::find_if(run.program.tasks.begin(), run.program.tasks.end(),
                                 [&](const program::Task& one) { return program::Name(one) == op; });
  const auto delay = [&](int step, double parts) {
    engine::TaskTime& time = run.times[step][task->id.value];
    time.end += parts * (time.end - time.start);
  };
  delay(3, 1000), delay(7, 18);
  std::vector<double> step_seconds(20, 1);
  step_seconds[3] = step_seconds[4] = 2;
  EXPECT_NEAR(rate(step_seconds), undisturbed / 2, 1e-3 * undisturbed) << "18 steps, of which one 19 times as long";
  step_seconds[4] = 0, step_seconds[7] = 2;
  EXPECT_NEAR(rate(step_seconds), undisturbed, 1e-3 * undisturbed);
}

// Makes a side of a meeting wait: it comes later by so much, all end later, and all that follows is later, too.
void Delay(const program::Program& program, const program::Meeting& meeting, size_t side, absl::Duration by,
           std::vector<engine::TaskTime>& times) {
  const absl::Duration end = times[meeting.sides[side].value].end;
  for (const program::Task& task : program.tasks) {
    engine::TaskTime& time = times[task.id.value];
    if (time.end < end) continue;
    if (time.start >= end) time.start += by;
    time.end += by;
  }
  times[meeting.sides[side].value].start += by;
}

// On the way to the second meeting a device is late by `delay` ways of all meetings: each device in every other step, or
// always the first.
void SeeLate(double delay, bool in_turn, Observations& seen) {
  SimulatedRun run = RunOn(CertainMachine(2), {});
  run.times.resize(20, run.times[0]);
  const std::vector<program::Meeting> meetings = program::Meetings(run.program).all();
  absl::Duration way;
  for (size_t m = 1; m < meetings.size(); ++m) {
    way += run.times[0][meetings[m].sides[0].value].start - run.times[0][meetings[m - 1].sides[0].value].end;
  }
  for (size_t step = 0; step < run.times.size(); ++step) {
    Delay(run.program, meetings[1], in_turn ? step % 2 : 0, delay * way, run.times[step]);
  }
  run.SeenBy(seen);
}

// In turn a device is late by half of the delay on the average, and they meet when all of it has passed.
TEST(Observations, FindWhatTheSlowerOfTwoTakesLonger) {
  Observations seen, always_one;
  SeeLate(0, true, seen);
  EXPECT_NEAR(seen.skew(), 0, 1e-6);
  SeeLate(1, false, always_one);
  EXPECT_NEAR(always_one.skew(), 0, 1e-6) << "that one is slower";
  Observations late;
  SeeLate(1, true, late);
  EXPECT_NEAR(late.skew(), 0.5 / 1.5, 1e-6);
  EXPECT_EQ(late.skew_within(), 0) << "of one run";
  for (double delay : {1.0, 2.0 / 11, 2.0 / 11}) SeeLate(delay, true, late);
  EXPECT_NEAR(late.skew_within(), 2, 1e-4) << "of two runs with a third, and two with a twelfth";
}

TEST(Observations, ATransferEndsWhenItsSidesHaveEndedOnTheAverage) {
  SimulatedRun run = RunOn(CertainMachine(2), {});
  Observations prompt, late;
  const double seconds = run.SeenBy(prompt).Transfers()[0].points[0].second;
  for (std::vector<engine::TaskTime>& times : run.times) {
    for (const program::Meeting& meeting : program::Meetings(run.program).all()) {
      times[meeting.sides[1].value].end += absl::Microseconds(30);
    }
  }
  EXPECT_NEAR(run.SeenBy(late).Transfers()[0].points[0].second, seconds + 15e-6, 1e-9);
}

TEST(Observations, ADeviceThatIsAsFastInOneRunIsAsFast) {
  engine::Machine machine = CertainMachine(2);
  Observations seen;
  for (const double factor : {1.0, 1.3, 1.3}) {
    machine.slower = {{machine.devices[1], factor}};
    const SimulatedRun run = RunOn(machine, {});
    run.SeenBy(seen);
  }
  EXPECT_THAT(seen.Slowness(), ElementsAre(1, 1));
}

// In six steps a device takes 1.3 times as long, in one or three others half as long.
TEST(Observations, ADeviceIsSlowerWhereTheMiddleHalfOfTheStepsSaysSo) {
  engine::Machine machine = CertainMachine(2);
  machine.slower = {{machine.devices[1], 0.5}};
  const SimulatedRun fast = RunOn(machine, {});
  machine.slower[0].factor = 1.3;
  SimulatedRun run = RunOn(machine, {});
  for (int i = 0; i < 4; ++i) run.times.push_back(run.times[0]);
  const auto slowness = [&](int others) {
    SimulatedRun all = run;
    all.times.insert(all.times.end(), others, fast.times[0]);
    Observations seen;
    return all.SeenBy(seen).Slowness()[1];
  };
  EXPECT_NEAR(slowness(1), 1.3, 1e-5);
  EXPECT_EQ(slowness(3), 1);
}

}  // namespace
}  // namespace colonnade::tools
