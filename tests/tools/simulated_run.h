// What a run on a machine would have measured, if that machine were there.
#ifndef COLONNADE_TESTS_TOOLS_SIMULATED_RUN_H_
#define COLONNADE_TESTS_TOOLS_SIMULATED_RUN_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "engine/trace.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "tools/observations.h"

namespace colonnade::tools {

// The last steps of a network on two devices, on a machine.
struct SimulatedRun {
  program::Program program;
  std::vector<std::vector<engine::TaskTime>> times;
  std::vector<double> host_seconds;
  absl::Duration step;  // from one to the next

  // Of steps that take equally long.
  Observations& SeenBy(Observations& seen) const {
    const std::vector<double> step_seconds(times.size(), 1);
    seen.AddRun({program, times, step_seconds, host_seconds});
    return seen;
  }
};
struct SimulatedCase {
  std::string model = "lenet", plan = "model";
  int devices = 2;
  int64_t batch = 64;
  bool overlap = false;
};
inline SimulatedRun RunOn(const engine::Machine& machine, const SimulatedCase& c) {
  const layers::LayerGraph graph = *models::BuildModel(c.model, {});
  partition::Plan plan = *partition::NamedPlan(c.plan, graph, {.devices = c.devices, .global_batch = c.batch});
  plan.overlap = c.overlap;
  SimulatedRun run{*partition::Lower(graph, plan, {.global_batch = c.batch}), {}, {1e-3, 9e-3, 2e-3}};
  const engine::Simulation simulation = *engine::Simulate(run.program, machine);
  run.step = simulation.step;
  const size_t tasks = run.program.tasks.size();
  for (size_t i = 0; i < simulation.last_steps.events.size(); ++i) {
    if (i % tasks == 0) run.times.emplace_back();
    const engine::TraceEvent& event = simulation.last_steps.events[i];
    run.times.back().push_back({event.start, event.end});
  }
  return run;
}

// How long no lane of any device does anything between two steps: with one step in flight what the host takes.
inline double SecondsBetween(const std::vector<engine::TaskTime>& step, const std::vector<engine::TaskTime>& next) {
  absl::Duration end, start = absl::InfiniteDuration();
  for (const engine::TaskTime& time : step) end = std::max(end, time.end);
  for (const engine::TaskTime& time : next) start = std::min(start, time.start);
  return absl::ToDoubleSeconds(start - end);
}

}  // namespace colonnade::tools

#endif  // COLONNADE_TESTS_TOOLS_SIMULATED_RUN_H_
