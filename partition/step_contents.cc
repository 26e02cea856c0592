#include "partition/step_contents.h"

namespace colonnade::partition {

using layers::LayerId;
using layers::LayerNode;
using layers::Slot;

StepContents::StepContents(const layers::LayerGraph& graph, program::Mode mode, const std::set<std::string>& frozen_layers)
    : graph_(graph) {
  const bool train = mode == program::Mode::kTrain;
  runs_ = train ? std::vector<bool>(graph.nodes.size(), true) : graph.ReachesLast();
  for (const LayerNode& node : graph.nodes) {
    bool has_gradient = train && !node.parameters.empty() && !frozen_layers.contains(node.name);
    trains_.push_back(has_gradient);
    for (LayerId input : node.inputs) has_gradient = has_gradient || has_gradient_[input.value];
    has_gradient_.push_back(has_gradient);
  }
}

WantedStages StepContents::Wanted(int node, const layers::LayerStages& stages) const {
  WantedStages wanted = StagesWanted(stages, [&](Slot slot) { return IsWanted(node, slot); });
  if (!runs_[node]) wanted.runs.assign(stages.stages.size(), false);
  return wanted;
}

bool StepContents::Makes(int node, const layers::Stage& stage, Slot slot, const WantedStages& wanted) const {
  const bool is_backward = stage.pass == program::Pass::kBackward;
  if (slot.kind == Slot::Kind::kInner) return is_backward || wanted.inner[slot.index];
  if (slot.kind == Slot::Kind::kParameter) return is_backward;
  return IsWanted(node, slot);
}

bool StepContents::IsWanted(int node, Slot slot) const {
  if (!slot.gradient) return true;
  if (slot.kind == Slot::Kind::kParameter) return trains_[node];
  const std::vector<LayerId>& inputs = graph_.nodes[node].inputs;
  return slot.kind == Slot::Kind::kInput && slot.index < static_cast<int>(inputs.size()) &&
         has_gradient_[inputs[slot.index].value];
}

}  // namespace colonnade::partition
