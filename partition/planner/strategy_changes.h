// Internal to partition/. Changes of a plan in a few neighbouring layers.
#ifndef COLONNADE_PARTITION_PLANNER_STRATEGY_CHANGES_H_
#define COLONNADE_PARTITION_PLANNER_STRATEGY_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/plan.h"
#include "partition/planner/step_costs.h"

namespace colonnade::partition {

// Gives the layers from `first` on, `length` of them, the same `strategies`.
struct StrategyChange {
  double additive_sec = 0;  // by which it makes the additive cost larger
  size_t first = 0, length = 1;
  Strategies strategies;
};

// Returns all changes of one to three neighbouring layers that change the plan, sorted by additive cost (additive_cost.h),
// the best first.
std::vector<StrategyChange> StrategyChangesOf(const layers::LayerGraph& graph, const Plan& plan, int64_t samples,
                                              const StepCosts& costs);

// Makes a change in a plan, whose name is then kAutoPlan; false where all its layers have the strategies already.
bool Apply(const StrategyChange& change, const layers::LayerGraph& graph, Plan& plan);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_STRATEGY_CHANGES_H_
