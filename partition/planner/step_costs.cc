#include "partition/planner/step_costs.h"

#include "base/status_macros.h"

namespace colonnade::partition {

absl::StatusOr<StepCosts> StepCostsOn(const Mesh& mesh, const layers::LayerGraph& graph, const PlannerOptions& options) {
  ASSIGN_OR_RETURN(CostFunctions once, options.cost(mesh.device_count()));
  once.dtype = options.lower.dtype;
  once.mode = options.lower.mode;
  once.frozen_layers = options.lower.update.frozen_layers;
  StepCosts costs{.cost = once, .options = LegalOptions(graph, mesh, options.lower.samples_at_once(), once)};
  const auto times = static_cast<double>(options.lower.micro_batches);
  costs.cost.transfer = [once, times](program::CollectiveKind kind, int members, double bytes) {
    return times * once.transfer(kind, members, bytes);
  };
  for (std::vector<StrategyOption>& of_node : costs.options) {
    for (StrategyOption& option : of_node) {
      LayerCost& cost = option.cost;
      cost.compute_sec = times * (cost.compute_sec - cost.update_sec) + cost.update_sec;
      cost.transfer_sec *= times;
    }
  }
  return costs;
}

}  // namespace colonnade::partition
