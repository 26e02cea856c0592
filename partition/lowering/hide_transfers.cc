#include <algorithm>
#include <variant>
#include <vector>

#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

// What it writes is gradients of parameters, for which no action of the backward pass waits.
bool MakesParameterGradientsAlone(const Lowering& lowering, const Action& action) {
  if (!std::holds_alternative<RunStage>(action.body) || WritesNothing(action)) return false;
  return std::all_of(action.outputs.begin(), action.outputs.end(),
                     [&](ValueId value) { return !value.valid() || lowering.value(value).Is<ParameterGradient>(); });
}

using IsForTheHost = std::vector<bool>;  // by value

// Whether devices wait for what moves.
bool IsTransfer(const IsForTheHost& for_the_host, const Action& action) {
  const auto* reshard = std::get_if<Reshard>(&action.body);
  return reshard != nullptr && CollectiveOf(reshard->entry.kind) && !for_the_host[action.outputs[0].value];
}

bool Reads(const Action& action, ValueId value) {
  return std::any_of(action.inputs.begin(), action.inputs.end(),
                     [&](const ActionOperand& operand) { return value.valid() && operand.value == value; });
}

// Whether `later` reads what `earlier` writes, or takes the memory of what `earlier` reads.
bool DependsOn(const Lowering& lowering, const Action& later, const Action& earlier) {
  for (ValueId value : earlier.outputs) {
    if (Reads(later, value)) return true;
  }
  for (ValueId value : later.outputs) {
    if (value.valid() && Reads(earlier, lowering.value(value).in_place_of)) return true;
  }
  return false;
}

using Actions = std::vector<Action>;

// The action nearest before the transfer that may run while it does, unless it runs beside another one; else the transfer.
// Before `first` there is none.
Actions::iterator HiddenBy(const Lowering& lowering, const IsForTheHost& for_the_host, Actions::iterator first,
                           Actions::iterator transfer) {
  for (auto action = transfer; action > first;) {
    --action;
    if (!MakesParameterGradientsAlone(lowering, *action)) continue;
    const bool hides_another = action != lowering.actions.begin() && IsTransfer(for_the_host, *(action - 1)) &&
                               !DependsOn(lowering, *action, *(action - 1));
    const bool is_read =
        std::any_of(action + 1, transfer + 1, [&](const Action& later) { return DependsOn(lowering, later, *action); });
    return hides_another || is_read ? transfer : action;
  }
  return transfer;
}

}  // namespace

absl::Status HideTransfers(Lowering& lowering) {
  Actions& actions = lowering.actions;
  const IsForTheHost for_the_host = ReadByTheHostAlone(lowering);
  // Gradients that move on leave no other at their place or before it.
  const auto first = std::find_if(actions.begin(), actions.end(),
                                  [&](const Action& action) { return MakesParameterGradientsAlone(lowering, action); });
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!IsTransfer(for_the_host, actions[i])) continue;
    const auto transfer = actions.begin() + static_cast<std::ptrdiff_t>(i);
    const auto hidden = HiddenBy(lowering, for_the_host, first, transfer);
    if (hidden != transfer) std::rotate(hidden, hidden + 1, transfer + 1);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
