#include "partition/lowering/lowering.h"

#include <algorithm>

namespace colonnade::partition {

size_t IndexOf(const std::vector<layers::Slot>& slots, layers::Slot slot) {
  return static_cast<size_t>(std::find(slots.begin(), slots.end(), slot) - slots.begin());
}

bool GathersParameters(const Plan& plan) { return plan.reduction != Reduction::kAllReduce; }

std::string MetricsName(const layers::LayerGraph& graph, int node) {
  const bool is_last = node + 1 == static_cast<int>(graph.nodes.size());
  return is_last ? "metrics" : graph.nodes[node].name + ".metrics";
}

bool ForwardsInput(const Action& action) {
  return std::holds_alternative<Reshard>(action.body) || std::holds_alternative<Round>(action.body);
}

std::vector<bool> ReadByTheHostAlone(const Lowering& lowering) {
  std::vector<bool> by_the_host(lowering.values.size(), false), by_devices(lowering.values.size(), false);
  for (auto action = lowering.actions.rbegin(); action != lowering.actions.rend(); ++action) {
    const bool is_handed_to_reports = ForwardsInput(*action) && by_the_host[action->outputs[0].value];
    const bool is_for_the_host = std::holds_alternative<Report>(action->body) || is_handed_to_reports;
    for (const ActionOperand& operand : action->inputs) {
      if (!operand.value.valid()) continue;
      const int32_t value = operand.value.value;
      by_devices[value] = by_devices[value] || !is_for_the_host;
      by_the_host[value] = !by_devices[value];
    }
  }
  return by_the_host;
}

bool WritesNothing(const Action& action) {
  return std::none_of(action.outputs.begin(), action.outputs.end(), [](ValueId value) { return value.valid(); });
}

bool UpdatesStateAlone(const Lowering& lowering, const Action& action) {
  return lowering.train() && std::holds_alternative<RunStage>(action.body) && WritesNothing(action);
}

}  // namespace colonnade::partition
