// What calibration takes from the times of tasks: from simulated runs, whose machine says what is to come out.
#include "tools/observations.h"

#include <optional>
#include <vector>

#include "engine/simulator.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "tests/tools/moves_bytes.h"

namespace colonnade::tools {
namespace {

// The last steps of lenet on two devices that split its layers, on a machine.
struct SimulatedRun {
  program::Program program;
  std::vector<std::vector<engine::TaskTime>> times;
  std::vector<double> host_seconds;
};
SimulatedRun RunOn(const engine::Machine& machine, bool overlap) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  partition::Plan plan = *partition::NamedPlan("model", graph, {.devices = 2, .global_batch = 64});
  plan.overlap = overlap;
  SimulatedRun run{*partition::Lower(graph, plan, {.global_batch = 64}), {}, {1e-3, 3e-3, 2e-3}};
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
    const SimulatedRun run = RunOn(machine, overlap);
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
}

TEST(Observations, WithoutOverlappedRunsNothingIsKnownOfThem) {
  const SimulatedRun run = RunOn(CertainMachine(2), /*overlap=*/false);
  Observations seen;
  seen.AddRun({run.program, run.times, run.host_seconds});
  EXPECT_EQ(seen.overlap_slowdown(), std::nullopt);
}

TEST(Observations, FindLaunchesHandoffsAndTheHost) {
  engine::Machine machine = CertainMachine(2);
  machine.handoff_sec.value = 5e-6;
  const Observations seen = ObservationsOn(machine);
  EXPECT_NEAR(seen.launch_sec(), 0, 1e-9);
  EXPECT_NEAR(seen.handoff_sec(), 5e-6, 1e-9);
  EXPECT_EQ(seen.host_sec_per_device(), 1e-3) << "the median of 1, 2 and 3 ms, of two devices";
}

}  // namespace
}  // namespace colonnade::tools
