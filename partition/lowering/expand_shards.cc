#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/traits.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

struct Placer {
  Lowering& lowering;
  std::vector<Action> sums;  // to go before the action that was placed last

  void Make(ValueId id, const TensorPlacement& placement) { lowering.values[id.value].placement = placement; }

  void Place(Action& action, const RunStage& run) {
    const NodeSharding& sharding = lowering.shardings[run.node];
    const layers::Stage& stage = lowering.stage(run);
    for (size_t k = 0; k < stage.reads.size(); ++k) action.inputs[k].needed = Needed(sharding, stage.reads[k]);
    for (size_t k = 0; k < stage.writes.size(); ++k) {
      if (action.outputs[k].valid()) Make(action.outputs[k], Made(sharding, stage.writes[k]));
    }
  }
  // Contributions that lie alike are added where they are, so that their sum is moved once: into `sums` if others lie
  // differently, else by the action itself.
  void Place(Action& action, const SumGradients& sum) {
    const TensorPlacement needed = lowering.shardings[sum.node].output_gradient;
    std::vector<ActionOperand> operands;
    for (const std::vector<ValueId>& alike : GroupByPlacement(action.inputs)) {
      const TensorPlacement placement = lowering.value(alike[0]).placement;
      if (alike.size() == action.inputs.size() && NeedsCollective(placement, needed)) return PlaceSum(action, placement);
      if (alike.size() == 1 || !NeedsCollective(placement, needed)) {
        for (ValueId value : alike) operands.push_back({value, needed});
        continue;
      }
      const Value& total = lowering.value(action.outputs[0]);
      const ValueId part = lowering.AddValue({.name = absl::StrCat(total.name, sums.size()), .shape = total.shape});
      Action& first = sums.emplace_back(Action{.body = sum, .outputs = {part}, .provenance = action.provenance});
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
  void Place(Action& action, const SumMicroBatches&) { PlaceSum(action, lowering.value(action.inputs[0].value).placement); }
  // Each device counts the labels that the network's own loss reads there; their sum is whole on each.
  void Place(Action& action, const CountLabels&) {
    const TensorPlacement labels = LabelsOfTheLastLoss();
    for (ActionOperand& operand : action.inputs) operand.needed = labels;
    TensorPlacement count = labels;
    for (layers::Placement& on_axis : count) {
      const bool is_cut = on_axis.kind == layers::Placement::Kind::kSplit;
      on_axis = is_cut ? layers::Placement::Partial() : layers::Placement::Replicated();
    }
    Make(action.outputs[0], count);
  }
  TensorPlacement LabelsOfTheLastLoss() const {
    const size_t logits = lowering.graph.nodes.back().inputs.size();
    return lowering.shardings.back().inputs[logits];
  }
  // The host puts boxes together: what is split in one piece stays where it is, all else is made whole.
  void Place(Action& action, const Report& report) {
    const bool is_loss = layers::IsLoss(lowering.graph.nodes[report.node].layer);
    for (ActionOperand& operand : action.inputs) {
      operand.needed.assign(lowering.plan.mesh.axis_count(), layers::Placement::Replicated());
      for (size_t axis = 0; axis < operand.needed.size() && !is_loss; ++axis) {
        const layers::Placement& made = lowering.value(operand.value).placement[axis];
        const bool is_box = made.kind == layers::Placement::Kind::kSplit && made.sections.empty();
        if (is_box) operand.needed[axis] = made;
      }
    }
  }
  // Groups the operands by placement, in the order of the first of each group.
  std::vector<std::vector<ValueId>> GroupByPlacement(const std::vector<ActionOperand>& operands) const {
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
  // Whether bringing a value from one placement to another takes a collective. It does not for inputs, which are loaded
  // where needed, nor where each device takes a box of what it holds.
  bool NeedsCollective(const TensorPlacement& from, const TensorPlacement& to) const {
    if (from.empty()) return false;
    const std::vector<ReshardEntry> path = ReshardPath(lowering.plan.mesh, from, to);
    return std::any_of(path.begin(), path.end(),
                       [](const ReshardEntry& entry) { return CollectiveOf(entry.kind).has_value(); });
  }
  // The actions of later passes do not exist yet.
  void Place(Action&, const LoadInput&) {}
  void Place(Action&, const Round&) {}
  void Place(Action&, const Reshard&) {}
  void Place(Action&, const ReduceStatistics&) {}
  void Place(Action&, const CheckGradients&) {}
  void Place(Action&, const ReduceGradients&) {}
  void Place(Action&, const MeasureGradients&) {}
  void Place(Action&, const SumNorms&) {}
  void Place(Action&, const OpenGate&) {}
  void Place(Action&, const UpdateParameters&) {}
  void Place(Action&, const GatherParameters&) {}
  void Place(Action&, const AverageParameters&) {}
  void Place(Action&, const GatherGradients&) {}
};

void PlaceParametersAndState(Lowering& lowering) {
  for (ShardedParameter& p : lowering.parameters) {
    p.placement = lowering.shardings[p.node].parameters[p.index];
    p.gradient = lowering.shardings[p.node].parameter_gradients[p.index];
  }
  for (ShardedState& s : lowering.state) {
    const NodeSharding& sharding = lowering.shardings[s.node];
    s.placement = (s.is_frozen ? sharding.parameters : sharding.state)[s.index];
  }
  for (Value& value : lowering.values) {
    if (const auto* state = value.As<StateTensor>()) value.placement = lowering.state[state->index].placement;
    if (const auto* p = value.As<TrainedParameter>()) value.placement = lowering.parameters[p->index].placement;
  }
}

}  // namespace

absl::Status ExpandShards(Lowering& lowering) {
  Placer placer{lowering, {}};
  std::vector<Action> actions;
  for (Action& action : lowering.actions) {
    placer.sums.clear();
    std::visit([&](const auto& what) { placer.Place(action, what); }, action.body);
    for (Action& sum : placer.sums) actions.push_back(std::move(sum));
    actions.push_back(std::move(action));
  }
  lowering.actions = std::move(actions);
  PlaceParametersAndState(lowering);
  for (const Value& value : lowering.values) {
    if (value.placement.empty() && !value.Is<HostInputPart>()) {
      return absl::InternalError(absl::StrCat("ExpandShards: value ", value.name, " has no placement"));
    }
  }
  for (const Action& action : lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      if (operand.value.valid() && operand.needed.empty()) {
        return absl::InternalError(
            absl::StrCat("ExpandShards: an operand of ", action.provenance.layer, " has no placement"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
