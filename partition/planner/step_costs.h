// Internal to partition/. The additive costs of a step in micro-batches, on one mesh.
#ifndef COLONNADE_PARTITION_PLANNER_STEP_COSTS_H_
#define COLONNADE_PARTITION_PLANNER_STEP_COSTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "partition/planner.h"
#include "partition/planner/proposals.h"

namespace colonnade::partition {

struct StepCosts {
  CostFunctions cost;                                // of transfers between layers
  std::vector<std::vector<StrategyOption>> options;  // by node
};

// Returns the functions for the element type, mode and frozen layers of a step.
CostFunctions OfStep(const LowerOptions& lower, CostFunctions functions);

// Returns the costs of a step, in which all but reductions and updates is done for each micro-batch.
absl::StatusOr<StepCosts> StepCostsOn(const Mesh& mesh, const layers::LayerGraph& graph, const PlannerOptions& options);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_STEP_COSTS_H_
