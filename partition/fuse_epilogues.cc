#include "absl/container/flat_hash_map.h"
#include "layers/traits.h"
#include "partition/passes.h"

namespace colonnade::partition {
absl::Status FuseEpilogues(Lowering& lowering) {
  for (const Action& action : lowering.actions) {
    const auto* forward = std::get_if<Forward>(&action.what);
    if (forward && forward->fused_relu) return absl::InternalError("FuseEpilogues: an action is fused already");
  }
  absl::flat_hash_map<ValueId, int> readers, producer;
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    for (const ActionOperand& operand : lowering.actions[i].inputs) {
      if (operand.value.valid()) ++readers[operand.value];
    }
    for (ValueId output : lowering.actions[i].outputs) {
      if (output.valid()) producer[output] = static_cast<int>(i);
    }
  }
  std::vector<bool> fused(lowering.actions.size(), false);
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    const Action& relu = lowering.actions[i];
    const auto* forward = std::get_if<Forward>(&relu.what);
    if (!forward || !layers::TraitsOf(lowering.graph.nodes[forward->node].layer).is_relu) continue;
    const ValueId x = relu.inputs[0].value;
    auto made = producer.find(x);
    if (made == producer.end() || readers[x] != 1) continue;
    Action& source = lowering.actions[made->second];
    auto* source_forward = std::get_if<Forward>(&source.what);
    if (!source_forward || !layers::TraitsOf(lowering.graph.nodes[source_forward->node].layer).multiplies_weights ||
        BiasIsSeparate(lowering, source_forward->node)) {
      continue;
    }
    // A sum that is still to be done over devices cannot be cut off at zero; resharding stands between, so x is whole here.
    source_forward->fused_relu = true;
    source.outputs = relu.outputs;
    fused[i] = true;
  }
  std::vector<Action> actions;
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    if (!fused[i]) actions.push_back(std::move(lowering.actions[i]));
  }
  lowering.actions = std::move(actions);
  return absl::OkStatus();
}

}  // namespace colonnade::partition
