#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

ValueId AddRounded(Lowering& lowering, ValueId id) {
  const Value& master = lowering.value(id);
  return lowering.AddValue({.name = absl::StrCat(master.name, ".", program::Name(lowering.options.dtype)),
                            .shape = master.shape,
                            .placement = master.placement});
}

// Whether a value is a parameter, be its layer frozen or not.
bool IsParameter(const Lowering& lowering, const Value& value) {
  const auto* state = value.As<StateTensor>();
  return value.Is<TrainedParameter>() || (state != nullptr && lowering.state[state->index].is_frozen);
}

// Rounds each parameter before its first reader, for all of them.
void RoundParameters(Lowering& lowering) {
  absl::flat_hash_map<ValueId, ValueId> rounded;
  std::vector<Action> actions;
  for (Action& action : lowering.actions) {
    const layers::Stage* stage = lowering.StageOf(action);
    for (ActionOperand& operand : action.inputs) {
      if (stage != nullptr && stage->reads_masters) break;
      if (!operand.value.valid() || !IsParameter(lowering, lowering.value(operand.value))) continue;
      ValueId& copy = rounded[operand.value];
      if (!copy.valid()) {
        copy = AddRounded(lowering, operand.value);
        actions.push_back({.body = Round{}, .inputs = {operand}, .outputs = {copy}, .provenance = action.provenance});
      }
      operand.value = copy;
    }
    actions.push_back(std::move(action));
  }
  lowering.actions = std::move(actions);
}

bool IsSummand(const Mesh& mesh, const TensorPlacement& placement) { return !PartialAxes(mesh, placement).empty(); }

// True if the action makes a whole sum of summands, and of activations.
bool EndsSum(const Lowering& lowering, const Action& action) {
  if (!std::holds_alternative<Reshard>(action.body)) return false;
  const Value &from = lowering.value(action.inputs[0].value), &to = lowering.value(action.outputs[0]);
  const Mesh& mesh = lowering.plan.mesh;
  return IsSummand(mesh, from.placement) && !IsSummand(mesh, to.placement) && !to.in_master_type && !to.dtype;
}

// Rounds each sum over devices before its first reader, for all of them, and not before: compute does not wait for what
// still moves. Till then it is in the master type.
void RoundSums(Lowering& lowering) {
  const Mesh& mesh = lowering.plan.mesh;
  for (Value& value : lowering.values) value.in_master_type = value.in_master_type || IsSummand(mesh, value.placement);
  struct Sum {
    ValueId copy;  // once it is rounded
    program::Provenance provenance;
  };
  absl::flat_hash_map<ValueId, Sum> rounded;
  std::vector<Action> actions;
  for (Action& action : lowering.actions) {
    for (ActionOperand& operand : action.inputs) {
      const auto sum = rounded.find(operand.value);
      if (sum == rounded.end()) continue;
      ValueId& copy = sum->second.copy;
      if (!copy.valid()) {
        copy = AddRounded(lowering, sum->first);
        actions.push_back({.body = Round{},
                           .inputs = {{sum->first, lowering.value(sum->first).placement}},
                           .outputs = {copy},
                           .provenance = sum->second.provenance});
      }
      operand.value = copy;
    }
    if (EndsSum(lowering, action)) {
      const ValueId sum = action.outputs[0];
      lowering.values[sum.value].in_master_type = true;
      rounded[sum] = {.copy = {}, .provenance = action.provenance};
    }
    actions.push_back(std::move(action));
  }
  lowering.actions = std::move(actions);
}

}  // namespace

// In bf16 every activation and its gradient is rounded where it is stored; parameters, their gradients, what layers keep
// for themselves and sums over devices stay f32 (program::MasterType), and kernels read each parameter through a copy that
// is rounded once a step.
absl::Status ChoosePrecision(Lowering& lowering) {
  const program::DType dtype = lowering.options.dtype;
  const program::DType master = program::MasterType(dtype);
  if (master != dtype) {
    RoundParameters(lowering);
    RoundSums(lowering);
  }
  for (Value& value : lowering.values) {
    if (!value.dtype) value.dtype = value.in_master_type ? master : dtype;
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
