// Searches for the plan that trains fastest (`--plan=auto`).
//
// For every mesh of the devices, an additive cost (additive_cost.h) proposes the best assignments of strategies to layers
// (proposals.h). The makespan of a step is not additive, so `judge`, which the caller makes of a simulator, ranks: all
// proposals and all named plans first, then variants of the best (reduction, overlap, bucket size, which device sits where),
// then single layers of the winner exchanged as long as that helps.
//
// Deterministic: a function of its arguments alone.
#ifndef COLONNADE_PARTITION_PLANNER_H_
#define COLONNADE_PARTITION_PLANNER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "partition/layer_cost.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::partition {

inline constexpr char kAutoPlan[] = "auto";  // the name of plans that the search has made

struct Judgement {
  double step_sec = 0;
  int64_t peak_memory_bytes = 0;  // of the fullest device
};

struct PlannerOptions {
  int devices = 1;
  LowerOptions lower;
  CostFunctions cost;
  std::function<absl::StatusOr<Judgement>(const program::Program&)> judge;
  int64_t memory_bytes = 0;  // of each device; 0: no limit
  int proposals_per_mesh = 6;
  int most_judgements = 400;  // ends the search
};

struct Candidate {
  Plan plan;
  Judgement judgement;
  bool fits = true;
};

// All judged plans that fit, the fastest first, then those that do not fit, the smallest first; never empty. Errors: those
// of the network, batch and judge; FailedPrecondition where not even one plan can be made.
absl::StatusOr<std::vector<Candidate>> SearchPlans(const layers::LayerGraph& graph, const PlannerOptions& options);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_H_
