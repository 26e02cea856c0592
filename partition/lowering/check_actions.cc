#include "partition/lowering/check_actions.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace colonnade::partition {
namespace {

enum class BucketStage { kNotChecked, kChecked, kReduced, kMeasured, kUpdated, kGathered, kAveraged };

// How far an action brings its bucket; the bucket is −1 for actions that have none.
struct BucketProgress {
  int bucket = -1;
  BucketStage stage = BucketStage::kNotChecked;
  int reduction_part = 0;
};

BucketProgress ProgressOf(const Action& action) {
  using enum BucketStage;
  if (const auto* check = std::get_if<CheckGradients>(&action.body)) return {check->bucket, kChecked};
  if (const auto* reduce = std::get_if<ReduceGradients>(&action.body)) return {reduce->bucket, kReduced, reduce->part};
  if (const auto* measure = std::get_if<MeasureGradients>(&action.body)) return {measure->bucket, kMeasured};
  if (const auto* update = std::get_if<UpdateParameters>(&action.body)) return {update->bucket, kUpdated};
  if (const auto* gather = std::get_if<GatherParameters>(&action.body)) return {gather->bucket, kGathered};
  if (const auto* average = std::get_if<AverageParameters>(&action.body)) return {average->bucket, kAveraged};
  return {};
}

// True if `next` may follow: the next part of the reduction, or a later stage once all parts are reduced.
bool MayFollow(const BucketProgress& last, const BucketProgress& next, int parts) {
  if (next.stage == last.stage) return next.reduction_part == last.reduction_part + 1 && next.reduction_part < parts;
  const bool is_reduced_whole = last.stage != BucketStage::kReduced || last.reduction_part == parts - 1;
  return next.stage > last.stage && next.reduction_part == 0 && is_reduced_whole;
}

// Which parts of values are made.
class MadeParts {
 public:
  explicit MadeParts(const Lowering& lowering)
      : all_(lowering.batch_parts == 64 ? ~uint64_t{0} : (uint64_t{1} << lowering.batch_parts) - 1),
        made_(lowering.values.size(), 0) {}
  bool Has(ValueId value, std::optional<int> part) const { return (made_[value.value] & Mask(part)) == Mask(part); }
  // False if any of it was made before.
  bool Add(ValueId value, std::optional<int> part) {
    const bool is_new = (made_[value.value] & Mask(part)) == 0;
    made_[value.value] |= Mask(part);
    return is_new;
  }

 private:
  uint64_t Mask(std::optional<int> part) const { return part.has_value() ? uint64_t{1} << *part : all_; }

  uint64_t all_;
  std::vector<uint64_t> made_;
};
static_assert(kMostTransferParts <= 64);

bool IsThereFromTheBeginning(const Value& value) {
  return value.Is<HostInputPart>() || value.Is<StateTensor>() || value.Is<TrainedParameter>();
}

// Whether a value is a parameter whose bucket has been updated. A rounded copy is not: it was made before, and keeps the old
// value.
bool IsUpdated(const Lowering& lowering, ValueId id, const std::vector<BucketProgress>& progress) {
  const auto* parameter = id.valid() ? lowering.value(id).As<TrainedParameter>() : nullptr;
  const int bucket = parameter != nullptr ? lowering.parameters[parameter->index].bucket : -1;
  return bucket >= 0 && progress[bucket].stage >= BucketStage::kUpdated;
}

}  // namespace

absl::Status CheckActions(const Lowering& lowering, absl::string_view pass) {
  using enum BucketStage;
  auto broken = [&](const std::string& what) { return absl::InternalError(absl::StrCat("after ", pass, ": ", what)); };
  MadeParts made(lowering);
  std::vector<BucketProgress> progress(lowering.buckets.size());
  for (const Action& action : lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      if (IsUpdated(lowering, operand.value, progress)) {
        return broken(absl::StrCat("layer ", action.provenance.layer, " reads ", lowering.value(operand.value).name,
                                   " after it is updated"));
      }
      if (!operand.value.valid() || IsThereFromTheBeginning(lowering.value(operand.value))) continue;
      if (made.Has(operand.value, action.batch_part)) continue;
      return broken(absl::StrCat("layer ", action.provenance.layer, " reads ", lowering.value(operand.value).name,
                                 " before it is made"));
    }
    for (ValueId output : action.outputs) {
      if (!output.valid()) continue;
      if (!made.Add(output, action.batch_part)) return broken(absl::StrCat(lowering.value(output).name, " is made twice"));
    }
    const BucketProgress next = ProgressOf(action);
    if (next.bucket < 0) continue;
    const GradientBucket& bucket = lowering.buckets[next.bucket];
    BucketProgress& last = progress[next.bucket];
    if (next.stage > kChecked && last.stage < kChecked) return broken(bucket.name + " is used before it is checked");
    if (!MayFollow(last, next, bucket.reduction_parts)) {
      return broken(bucket.name + " is reduced, updated or gathered out of order");
    }
    last = next;
  }
  for (const BucketProgress& last : progress) {
    if (last.stage > kNotChecked && last.stage < kUpdated)
      return broken(lowering.buckets[last.bucket].name + " is never updated");
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
