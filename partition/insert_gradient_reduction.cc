#include "absl/strings/str_cat.h"
#include "partition/passes.h"

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

void AppendReduction(const Lowering& lowering, int index, std::vector<Action>& actions) {
  const GradientBucket& bucket = lowering.buckets[index];
  const program::Provenance backward{bucket.name, Pass::kBackward}, update{bucket.name, Pass::kUpdate};
  const bool reduced = lowering.ReductionSize(bucket) > 1;
  const bool updates_a_part = reduced && lowering.plan.reduction != Reduction::kAllReduce;
  for (int piece = 0; reduced && piece < bucket.pieces; ++piece) {
    actions.push_back({.what = ReduceGradients{index, piece}, .from = backward});
  }
  if (reduced && lowering.options.expose_gradients && lowering.plan.reduction == Reduction::kSharded) {
    actions.push_back({.what = GatherGradients{index}, .from = backward});
  }
  actions.push_back({.what = UpdateParameters{index}, .from = update});
  if (updates_a_part) actions.push_back({.what = GatherParameters{index}, .from = update});
}

}  // namespace

absl::Status InsertGradientReduction(Lowering& lowering) {
  if (!lowering.train()) return absl::OkStatus();
  if (lowering.buckets.empty() != lowering.parameters.empty()) {
    return absl::InternalError("InsertGradientReduction: expected buckets");
  }
  std::vector<int> missing(lowering.buckets.size());
  for (size_t b = 0; b < missing.size(); ++b) missing[b] = static_cast<int>(lowering.buckets[b].parameters.size());
  std::vector<Action> actions, after_backward;
  for (Action& action : lowering.actions) {
    const std::vector<int> made = GradientsMadeBy(lowering, action);
    actions.push_back(std::move(action));
    for (int p : made) {
      const int bucket = lowering.parameters[p].bucket;
      if (--missing[bucket] > 0) continue;
      actions.push_back({.what = CheckGradients{bucket}, .from = {lowering.buckets[bucket].name, Pass::kBackward}});
      AppendReduction(lowering, bucket, lowering.plan.overlap ? actions : after_backward);
    }
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
