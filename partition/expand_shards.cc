#include <algorithm>
#include <utility>
#include <vector>

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
  std::vector<Action> sums;  // to go before the action that was placed last

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
  // Contributions that lie alike are added where they are, so that their sum is moved once: into `sums` if others lie
  // differently, else by the action itself.
  void Place(Action& action, const SumGradients& sum) {
    const TensorPlacement needed = lowering.shardings[sum.node].output_gradient;
    std::vector<ActionOperand> operands;
    for (const std::vector<ValueId>& alike : ThatLieAlike(action.inputs)) {
      const TensorPlacement placement = lowering.value(alike[0]).placement;
      if (alike.size() == action.inputs.size() && IsSentOnTheWay(placement, needed)) return PlaceSum(action, placement);
      if (alike.size() == 1 || !IsSentOnTheWay(placement, needed)) {
        for (ValueId value : alike) operands.push_back({value, needed});
        continue;
      }
      const Value& total = lowering.value(action.outputs[0]);
      const ValueId part = lowering.AddValue({.name = absl::StrCat(total.name, sums.size()), .shape = total.shape});
      Action& first = sums.emplace_back(Action{.what = sum, .outputs = {part}, .from = action.from});
      for (ValueId value : alike) first.inputs.push_back({value, {}});
      PlaceSum(first, placement);
      operands.push_back({part, needed});
    }
    action.inputs = std::move(operands);
    PlaceSum(action, needed);
  }
  void PlaceSum(Action& action, const TensorPlacement& placement) {
    for (ActionOperand& operand : action.inputs) operand.needed = placement;
    Make(action.outputs[0], placement);
  }
  // By placement, in the order of the first of each.
  std::vector<std::vector<ValueId>> ThatLieAlike(const std::vector<ActionOperand>& operands) const {
    std::vector<std::vector<ValueId>> groups;
    for (const ActionOperand& operand : operands) {
      const TensorPlacement& placement = lowering.value(operand.value).placement;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<ValueId>& values) {
        return lowering.value(values[0]).placement == placement;
      });
      if (group == groups.end()) group = groups.insert(groups.end(), std::vector<ValueId>());
      group->push_back(operand.value);
    }
    return groups;
  }
  // False for what is loaded as needed, and where each device takes a box of what it holds.
  bool IsSentOnTheWay(const TensorPlacement& from, const TensorPlacement& to) const {
    if (from.empty()) return false;
    const std::vector<ReshardEntry> path = PlanReshard(lowering.plan.mesh, from, to);
    return std::any_of(path.begin(), path.end(),
                       [](const ReshardEntry& entry) { return CollectiveOf(entry.kind).has_value(); });
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
  Placer placer{lowering, {}};
  std::vector<Action> actions;
  for (Action& action : lowering.actions) {
    placer.sums.clear();
    std::visit([&](const auto& what) { placer.Place(action, what); }, action.what);
    for (Action& sum : placer.sums) actions.push_back(std::move(sum));
    actions.push_back(std::move(action));
  }
  lowering.actions = std::move(actions);
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
