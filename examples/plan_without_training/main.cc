// How fast a network would train on a machine that is not here, and by which plan. Nothing is trained: the step of each
// plan runs on a machine profile, on the simulator.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "layers/graph.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "partition/planner.h"
#include "program/representative_program.h"
#include "tools/intervals.h"
#include "tools/machines.h"
#include "tools/planning.h"

using namespace colonnade;  // NOLINT: an example

constexpr int kDevices = 4;
constexpr int64_t kBatch = 256;

struct Row {
  std::string plan;
  int devices = 1;
  program::RepresentativeProgram lowered;  // the devices of a step that stand for all
  engine::Simulation simulation;
  double seconds() const { return absl::ToDoubleSeconds(simulation.step); }
};

absl::StatusOr<Row> PredictPlan(const engine::Machine& machine, const layers::LayerGraph& graph,
                                const partition::Plan& plan) {
  ASSIGN_OR_RETURN(program::RepresentativeProgram lowered,
                   tools::LowerRepresentativesOn(machine, graph, plan, {.global_batch = kBatch}));
  ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(lowered, machine));
  return Row{plan.name, plan.mesh.device_count(), std::move(lowered), std::move(simulation)};
}

absl::Status RankPlans() {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel("alexnet", {}));
  ASSIGN_OR_RETURN(engine::Machine machine, tools::OpenMachine("dgx1-v100"));  // or a file of one's own

  // The plans that have names; "single" is of one device.
  std::vector<Row> rows;
  for (const std::string& name : partition::PlanNames()) {
    const int devices = name == "single" ? 1 : kDevices;
    ASSIGN_OR_RETURN(partition::Plan plan, partition::NamedPlan(name, graph, {.devices = devices, .global_batch = kBatch}));
    ASSIGN_OR_RETURN(Row row, PredictPlan(machine, graph, plan));
    rows.push_back(std::move(row));
  }
  // What the planner finds among all strategies of all layers.
  ASSIGN_OR_RETURN(std::vector<partition::Candidate> found,
                   tools::SearchPlansOn(machine, graph, {.global_batch = kBatch}, kDevices));
  const partition::Plan& best = found.front().plan;
  ASSIGN_OR_RETURN(Row choice, PredictPlan(machine, graph, best));
  choice.plan = "choice: " + choice.plan;
  rows.push_back(std::move(choice));

  // Numbers of a profile are right within a factor: each plan runs on many draws of them.
  std::vector<const program::RepresentativeProgram*> programs;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds() < b.seconds(); });
  for (const Row& row : rows) programs.push_back(&row.lowered);
  ASSIGN_OR_RETURN(tools::DrawnSteps drawn, tools::DrawSteps(machine, programs, /*refit=*/nullptr, {.draws = 20}));

  std::printf("%s, a batch of %d, on %s\n", graph.name.c_str(), static_cast<int>(kBatch), machine.name.c_str());
  std::printf("plan         devices  ms a step   90 %% of draws  images/s  waits for transfers  MB a device\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const engine::SimulatedDevice& device = rows[i].simulation.devices[0];
    const tools::Interval interval = drawn.Of(i);
    std::printf("%-12s %7d %10.2f %6.2f to %5.2f %9.0f %18.1f %% %12.0f\n", rows[i].plan.c_str(), rows[i].devices,
                1e3 * rows[i].seconds(), 1e3 * interval.low, 1e3 * interval.high, kBatch / rows[i].seconds(),
                100 * absl::FDivDuration(device.exposed_communication, rows[i].simulation.step),
                static_cast<double>(device.peak_memory_bytes) / 1e6);
  }
  ASSIGN_OR_RETURN(double least, tools::LeastSecondsOn(machine, graph, {.global_batch = kBatch}, kDevices));
  std::printf("%zu plans simulated; none takes less than %.2f ms. The choice, by layer:\n", found.size(), 1e3 * least);
  for (const layers::LayerNode& node : graph.nodes) {
    if (!node.parameters.empty())
      std::printf("  %-14s %s\n", node.name.c_str(), tools::StrategiesOf(best, node.name).c_str());
  }
  return absl::OkStatus();
}

int main() {
  const absl::Status status = RankPlans();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
