#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partition/lowering_passes.h"

namespace colonnade::partition {
namespace {

using program::Pass;

// Parameters whose gradient an action makes.
std::vector<int> GradientsMadeBy(const Lowering& lowering, const Action& action) {
  std::vector<int> made;
  for (ValueId output : action.outputs) {
    if (output.valid() && lowering.value(output).is_gradient) made.push_back(lowering.value(output).parameter);
  }
  return made;
}

bool IsReduced(const Lowering& lowering, int bucket) { return lowering.ReductionSize(lowering.buckets[bucket]) > 1; }

void AppendReduction(const Lowering& lowering, int index, std::vector<Action>& actions) {
  if (!IsReduced(lowering, index)) return;
  const GradientBucket& bucket = lowering.buckets[index];
  const program::Provenance backward{bucket.name, Pass::kBackward};
  for (int piece = 0; piece < bucket.pieces; ++piece) {
    actions.push_back({.what = ReduceGradients{index, piece}, .from = backward});
  }
  if (lowering.options.expose_gradients && lowering.plan.reduction == Reduction::kSharded) {
    actions.push_back({.what = GatherGradients{index}, .from = backward});
  }
}

// What obeys a gate: it follows the norms of all gradients.
std::vector<Action> GatedUpdates(const Lowering& lowering, std::vector<Action> updates, std::vector<Action> state_updates) {
  const program::Provenance gate{"gate", Pass::kUpdate};
  std::vector<Action> actions;
  if (lowering.plan.mesh.device_count() > 1) actions.push_back({.what = SumNorms{}, .from = gate});
  actions.push_back({.what = OpenGate{}, .from = gate});
  for (std::vector<Action>* more : {&updates, &state_updates}) {
    for (Action& action : *more) actions.push_back(std::move(action));
  }
  return actions;
}

void AppendUpdate(const Lowering& lowering, int index, std::vector<Action>& actions) {
  const program::Provenance update{lowering.buckets[index].name, Pass::kUpdate};
  actions.push_back({.what = UpdateParameters{index}, .from = update});
  if (IsReduced(lowering, index) && GathersParameters(lowering.plan))
    actions.push_back({.what = GatherParameters{index}, .from = update});
  if (lowering.options.update.average_decay > 0) actions.push_back({.what = AverageParameters{index}, .from = update});
}

// By bucket: the last action that reads a parameter of it, after which alone it may be updated.
std::vector<size_t> LastReaders(const Lowering& lowering) {
  std::vector<size_t> last(lowering.buckets.size(), 0);
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    for (const ActionOperand& operand : lowering.actions[i].inputs) {
      if (!operand.value.valid() || lowering.value(operand.value).parameter < 0) continue;
      last[lowering.parameters[lowering.value(operand.value).parameter].bucket] = i;
    }
  }
  return last;
}

}  // namespace

absl::Status InsertGradientReduction(Lowering& lowering) {
  if (!lowering.train()) return absl::OkStatus();
  if (lowering.buckets.empty() != lowering.parameters.empty()) {
    return absl::InternalError("InsertGradientReduction: expected buckets");
  }
  std::vector<int> missing(lowering.buckets.size());
  for (size_t b = 0; b < missing.size(); ++b) missing[b] = static_cast<int>(lowering.buckets[b].parameters.size());
  const std::vector<size_t> last_readers = LastReaders(lowering);
  const bool gated = lowering.options.update.is_gated();
  std::vector<Action> actions, after_backward, gated_updates, state_updates;
  std::map<size_t, std::vector<int>> updates;  // buckets by the action after which they are updated
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    const std::vector<int> made = GradientsMadeBy(lowering, lowering.actions[i]);
    const bool waits = gated && UpdatesStateAlone(lowering, lowering.actions[i]);
    (waits ? state_updates : actions).push_back(std::move(lowering.actions[i]));
    for (int p : made) {
      const int bucket = lowering.parameters[p].bucket;
      if (--missing[bucket] > 0) continue;
      actions.push_back({.what = CheckGradients{bucket}, .from = {lowering.buckets[bucket].name, Pass::kBackward}});
      std::vector<Action>& reductions = lowering.plan.overlap ? actions : after_backward;
      AppendReduction(lowering, bucket, reductions);
      if (gated) {
        reductions.push_back({.what = MeasureGradients{bucket}, .from = {lowering.buckets[bucket].name, Pass::kUpdate}});
        AppendUpdate(lowering, bucket, gated_updates);
      } else if (!lowering.plan.overlap) {
        AppendUpdate(lowering, bucket, after_backward);
      } else {
        if (last_readers[bucket] > i) updates[last_readers[bucket]].push_back(bucket);
        if (last_readers[bucket] <= i) AppendUpdate(lowering, bucket, actions);
      }
    }
    for (int bucket : updates[i]) AppendUpdate(lowering, bucket, actions);
  }
  if (gated) {
    std::vector<Action> updates = GatedUpdates(lowering, std::move(gated_updates), std::move(state_updates));
    after_backward.insert(after_backward.end(), std::move_iterator(updates.begin()), std::move_iterator(updates.end()));
  }
  for (Action& action : after_backward) actions.push_back(std::move(action));
  lowering.actions = std::move(actions);
  for (size_t b = 0; b < missing.size(); ++b) {
    if (missing[b] != 0) {
      return absl::InternalError(absl::StrCat("InsertGradientReduction: ", missing[b], " gradients of ",
                                              lowering.buckets[b].name, " are never made"));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
