// What calibration takes from the times of tasks: from simulated runs, whose machine says what is to come out.
#include "tools/observations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "tests/tools/moves_bytes.h"

namespace colonnade::tools {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// The last steps of a network on two devices, on a machine.
struct SimulatedRun {
  program::Program program;
  std::vector<std::vector<engine::TaskTime>> times;
  std::vector<double> host_seconds;
};
struct SimulatedCase {
  std::string model = "lenet", plan = "model";
  int devices = 2;
  int64_t batch = 64;
  bool overlap = false;
};
SimulatedRun RunOn(const engine::Machine& machine, const SimulatedCase& c) {
  const layers::LayerGraph graph = *models::BuildModel(c.model, {});
  partition::Plan plan = *partition::NamedPlan(c.plan, graph, {.devices = c.devices, .global_batch = c.batch});
  plan.overlap = c.overlap;
  SimulatedRun run{*partition::Lower(graph, plan, {.global_batch = c.batch}), {}, {1e-3, 9e-3, 2e-3}};
  const engine::Simulation simulation = *engine::Simulate(run.program, machine);
  const size_t tasks = run.program.tasks.size();
  for (size_t i = 0; i < simulation.last_steps.events.size(); ++i) {
    if (i % tasks == 0) run.times.emplace_back();
    const engine::TraceEvent& event = simulation.last_steps.events[i];
    run.times.back().push_back({event.start, event.end});
  }
  return run;
}

Observations ObservationsOn(const engine::Machine& machine) {
  Observations seen;
  for (bool overlap : {false, true}) {
    const SimulatedRun run = RunOn(machine, {.overlap = overlap});
    const Observations::Run of{run.program, run.times, run.host_seconds};
    overlap ? seen.AddOverlapped(of) : seen.AddRun(of);
  }
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
  seen.AddRun({run.program, run.times, run.host_seconds});
  EXPECT_EQ(seen.overlap_slowdown(), std::nullopt);
}

TEST(Observations, FindLaunchesAndHandoffs) {
  engine::Machine machine = CertainMachine(2);
  machine.handoff_sec.value = 5e-6;
  const Observations seen = ObservationsOn(machine);
  EXPECT_NEAR(seen.launch_sec(), 0, 1e-9);
  EXPECT_NEAR(seen.handoff_sec(), 5e-6, 1e-9);
}

// How long no lane of any device does anything between two steps: with one step in flight what the host takes.
double SecondsBetween(const std::vector<engine::TaskTime>& step, const std::vector<engine::TaskTime>& next) {
  absl::Duration end, start = absl::InfiniteDuration();
  for (const engine::TaskTime& time : step) end = std::max(end, time.end);
  for (const engine::TaskTime& time : next) start = std::min(start, time.start);
  return absl::ToDoubleSeconds(start - end);
}

// Of steps of two networks with two batches, on one device and on two.
HostTerms HostOn(const engine::Machine& machine) {
  Observations seen;
  for (const char* model : {"lenet", "two_column"}) {
    for (const SimulatedCase& c : {SimulatedCase{model, "single", 1, 64}, SimulatedCase{model, "single", 1, 128},
                                   SimulatedCase{model, "data", 2, 64}, SimulatedCase{model, "model", 2, 128}}) {
      SimulatedRun run = RunOn(machine, c);
      run.host_seconds = {SecondsBetween(run.times[0], run.times[1])};
      seen.AddRun({run.program, run.times, run.host_seconds});
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
  seen.AddRun({run.program, run.times, run.host_seconds});
  EXPECT_DOUBLE_EQ(seen.host().terms.sec_per_task, 2e-3 / static_cast<double>(run.program.tasks.size()))
      << "of 1, 2 and 9 ms; one Program tells no other term from tasks";
}

Observations SeenOfTwoPlans(const engine::Machine& machine) {
  Observations seen;
  for (const char* plan : {"data", "model"}) {
    const SimulatedRun run = RunOn(machine, {.plan = plan});
    seen.AddRun({run.program, run.times, run.host_seconds});
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
    Observations seen;
    seen.AddRun({run.program, absl::MakeSpan(run.times).subspan(0, steps), run.host_seconds});
    return seen;
  };
  for (const engine::OpRate& rate : see(8).Rates()) EXPECT_NEAR(rate.within, std::sqrt(1.2), 2e-3) << rate.op;
  for (const engine::MeasuredTransfer& transfer : see(8).Transfers()) EXPECT_NEAR(transfer.within, 1, 1e-6) << transfer.what;
  // One step is one time of each kernel on each device, too few where it comes once.
  const std::vector<engine::OpRate> of_one = see(1).Rates();
  EXPECT_TRUE(std::any_of(of_one.begin(), of_one.end(), [](const engine::OpRate& rate) { return rate.within == 0; }));
}

TEST(Observations, ADeviceThatIsAsFastInOneRunIsAsFast) {
  engine::Machine machine = CertainMachine(2);
  Observations seen;
  for (const double factor : {1.0, 1.3, 1.3}) {
    machine.slower = {{machine.devices[1], factor}};
    const SimulatedRun run = RunOn(machine, {});
    seen.AddRun({run.program, run.times, run.host_seconds});
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
    std::vector<std::vector<engine::TaskTime>> times = run.times;
    times.insert(times.end(), others, fast.times[0]);
    Observations seen;
    seen.AddRun({run.program, times, run.host_seconds});
    return seen.Slowness()[1];
  };
  EXPECT_NEAR(slowness(1), 1.3, 1e-5);
  EXPECT_EQ(slowness(3), 1);
}

}  // namespace
}  // namespace colonnade::tools
