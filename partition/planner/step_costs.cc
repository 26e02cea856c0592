#include "partition/planner/step_costs.h"

#include <utility>

#include "base/status_macros.h"

namespace colonnade::partition {

CostFunctions OfStep(const LowerOptions& lower, CostFunctions functions) {
  functions.dtype = lower.dtype;
  functions.mode = lower.mode;
  functions.frozen_layers = lower.update.frozen_layers;
  return functions;
}

absl::StatusOr<StepCosts> StepCostsOn(const Mesh& mesh, const layers::LayerGraph& graph, const PlannerOptions& options) {
  ASSIGN_OR_RETURN(CostFunctions functions, options.cost(mesh.device_count()));
  const CostFunctions once = OfStep(options.lower, std::move(functions));
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
