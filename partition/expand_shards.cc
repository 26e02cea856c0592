#include "absl/strings/str_cat.h"
#include "layers/traits.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

using layers::Placement;

// How labels lie where the logits lie as `logits` says.
TensorPlacement LabelPlacement(const TensorPlacement& logits) {
  TensorPlacement labels = logits;
  for (Placement& p : labels) {
    if (p != Placement::Split(0)) p = Placement::Replicated();
  }
  return labels;
}

// How a bias [K] lies that is added to y [n, K, …]: cut where the channels of y are.
TensorPlacement BiasPlacement(const TensorPlacement& y) {
  TensorPlacement bias = y;
  for (Placement& p : bias) p = p == Placement::Split(1) ? Placement::Split(0) : Placement::Replicated();
  return bias;
}

// How its gradient is made from dy: a partial sum where the batch is cut.
TensorPlacement BiasGradientPlacement(const TensorPlacement& dy) {
  TensorPlacement gradient = BiasPlacement(dy);
  for (size_t a = 0; a < dy.size(); ++a) {
    if (dy[a] == Placement::Split(0)) gradient[a] = Placement::Partial();
  }
  return gradient;
}

struct Placer {
  Lowering& lowering;

  void Make(ValueId id, const TensorPlacement& placement) { lowering.values[id.value].placement = placement; }

  // The node's inputs, and the labels of the loss, as the layer needs them.
  void NeedInputs(const NodeSharding& sharding, Action& action) {
    for (size_t k = 0; k < action.inputs.size() && k < sharding.inputs.size(); ++k)
      action.inputs[k].needed = sharding.inputs[k];
    if (IsLoss(action)) action.inputs[sharding.inputs.size()].needed = LabelPlacement(sharding.inputs[0]);
  }

  bool IsLoss(const Action& action) const {
    const auto* forward = std::get_if<Forward>(&action.what);
    const auto* backward = std::get_if<Backward>(&action.what);
    const int node = forward ? forward->node : backward ? backward->node : -1;
    return node >= 0 && layers::TraitsOf(lowering.graph.nodes[node].layer).is_loss;
  }

  void Place(Action& action, const Forward& forward) {
    const NodeSharding& sharding = lowering.shardings[forward.node];
    NeedInputs(sharding, action);
    if (!action.outputs.empty()) Make(action.outputs[0], sharding.output);
  }
  void Place(Action& action, const AddBias& add) {
    const NodeSharding& sharding = lowering.shardings[add.node];
    action.inputs[0].needed = sharding.output_gradient;
    Make(action.outputs[0], sharding.output_gradient);
  }
  void Place(Action& action, const Backward& backward) {
    const NodeSharding& sharding = lowering.shardings[backward.node];
    NeedInputs(sharding, action);
    const size_t y = sharding.inputs.size() + (IsLoss(action) ? 1 : 0);
    action.inputs[y].needed = sharding.output;
    if (action.inputs.size() > y + 1) action.inputs[y + 1].needed = sharding.output_gradient;
    for (size_t k = 0; k < action.outputs.size(); ++k) {
      if (action.outputs[k].valid()) Make(action.outputs[k], sharding.input_gradients[k]);
    }
  }
  void Place(Action& action, const BiasGradient& bias) {
    action.inputs[0].needed = lowering.shardings[bias.node].output_gradient;
  }
  void Place(Action& action, const SumGradients& sum) {
    const TensorPlacement& placement = lowering.shardings[sum.node].output_gradient;
    for (ActionOperand& operand : action.inputs) operand.needed = placement;
    Make(action.outputs[0], placement);
  }
  // The actions of later passes do not exist yet.
  void Place(Action&, const LoadInput&) {}
  void Place(Action&, const Reshard&) {}
  void Place(Action&, const CheckGradients&) {}
  void Place(Action&, const ReduceGradients&) {}
  void Place(Action&, const UpdateParameters&) {}
  void Place(Action&, const GatherParameters&) {}
  void Place(Action&, const GatherGradients&) {}
};

void PlaceParameters(Lowering& lowering) {
  int index_in_node = 0;
  for (size_t i = 0; i < lowering.parameters.size(); ++i) {
    ShardedParameter& p = lowering.parameters[i];
    index_in_node = i > 0 && lowering.parameters[i - 1].node == p.node ? index_in_node + 1 : 0;
    const NodeSharding& sharding = lowering.shardings[p.node];
    if (p.separate_bias) {
      p.placement = BiasPlacement(sharding.output_gradient);
      p.gradient = BiasGradientPlacement(sharding.output_gradient);
    } else {
      p.placement = sharding.parameters[index_in_node];
      p.gradient = sharding.parameter_gradients[index_in_node];
    }
  }
}

}  // namespace

absl::Status ExpandShards(Lowering& lowering) {
  Placer placer{lowering};
  for (Action& action : lowering.actions) {
    std::visit([&](const auto& what) { placer.Place(action, what); }, action.what);
  }
  PlaceParameters(lowering);
  for (const Value& value : lowering.values) {
    if (value.placement.empty() && value.host_input < 0) {
      return absl::InternalError(absl::StrCat("ExpandShards: value ", value.name, " has no placement"));
    }
  }
  for (const Action& action : lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      if (operand.value.valid() && operand.needed.empty()) {
        return absl::InternalError(absl::StrCat("ExpandShards: an operand of ", action.from.layer, " has no placement"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
