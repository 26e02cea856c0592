#include "partition/check_actions.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace colonnade::partition {
namespace {

enum BucketStage { kNotChecked, kChecked, kReduced, kUpdated, kGathered };

// The stage in which an action leaves its bucket, and −1 for actions that have none.
struct StageOf {
  int bucket = -1;
  BucketStage stage = kNotChecked;
};

StageOf StageAfter(const Action& action) {
  if (const auto* check = std::get_if<CheckGradients>(&action.what)) return {check->bucket, kChecked};
  if (const auto* reduce = std::get_if<ReduceGradients>(&action.what)) return {reduce->bucket, kReduced};
  if (const auto* update = std::get_if<UpdateParameters>(&action.what)) return {update->bucket, kUpdated};
  if (const auto* gather = std::get_if<GatherParameters>(&action.what)) return {gather->bucket, kGathered};
  return {};
}

}  // namespace

absl::Status CheckActions(const Lowering& lowering, absl::string_view pass) {
  auto broken = [&](const std::string& what) { return absl::InternalError(absl::StrCat("after ", pass, ": ", what)); };
  std::vector<bool> made(lowering.values.size(), false);
  std::vector<BucketStage> stage(lowering.buckets.size(), kNotChecked);
  for (const Action& action : lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      if (!operand.value.valid() || made[operand.value.value] || lowering.value(operand.value).host_input >= 0) continue;
      return broken(
          absl::StrCat("layer ", action.from.layer, " reads ", lowering.value(operand.value).name, " before it is made"));
    }
    for (ValueId output : action.outputs) {
      if (!output.valid()) continue;
      if (made[output.value]) return broken(absl::StrCat(lowering.value(output).name, " is made twice"));
      made[output.value] = true;
    }
    const StageOf after = StageAfter(action);
    if (after.bucket < 0) continue;
    const GradientBucket& bucket = lowering.buckets[after.bucket];
    if (after.stage > kChecked && stage[after.bucket] < kChecked)
      return broken(bucket.name + " is used before it is checked");
    if (stage[after.bucket] >= after.stage) return broken(bucket.name + " is reduced, updated or gathered out of order");
    stage[after.bucket] = after.stage;
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
