#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

// Rounds each parameter before its first reader, for all of them.
void RoundParameters(Lowering& lowering) {
  const program::DType dtype = lowering.options.dtype;
  absl::flat_hash_map<ValueId, ValueId> rounded;
  std::vector<Action> actions;
  for (Action& action : lowering.actions) {
    const layers::Stage* stage = lowering.StageOf(action);
    for (ActionOperand& operand : action.inputs) {
      if (stage != nullptr && stage->reads_masters) break;
      if (!operand.value.valid() || lowering.value(operand.value).parameter < 0) continue;
      ValueId& copy = rounded[operand.value];
      if (!copy.valid()) {
        const Value& master = lowering.value(operand.value);
        copy = lowering.AddValue({.name = absl::StrCat(master.name, ".", program::Name(dtype)),
                                  .shape = master.shape,
                                  .placement = master.placement});
        actions.push_back({.what = RoundParameter{}, .inputs = {operand}, .outputs = {copy}, .from = action.from});
      }
      operand.value = copy;
    }
    actions.push_back(std::move(action));
  }
  lowering.actions = std::move(actions);
}

}  // namespace

// In bf16 every activation and its gradient is rounded where it is stored; parameters, their gradients and what layers keep
// for themselves stay f32 (program::MasterType), and kernels read each parameter through a copy that is rounded once a step.
absl::Status ChoosePrecision(Lowering& lowering) {
  const program::DType dtype = lowering.options.dtype;
  if (!program::IsFloat(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("element type of a Program: expected f32, bf16 or f64, found ", program::Name(dtype)));
  }
  const program::DType master = program::MasterType(dtype);
  if (master != dtype) RoundParameters(lowering);
  for (Value& value : lowering.values) {
    if (!value.dtype) value.dtype = value.in_master_type ? master : dtype;
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
