#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/lowering/layer_names.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

using program::Pass;

// Parameters whose gradient an action makes.
std::vector<int> GradientsMadeBy(const Lowering& lowering, const Action& action) {
  std::vector<int> made;
  for (ValueId output : action.outputs) {
    const auto* gradient = output.valid() ? lowering.value(output).As<ParameterGradient>() : nullptr;
    if (gradient != nullptr) made.push_back(gradient->parameter);
  }
  return made;
}

bool IsReduced(const Lowering& lowering, int bucket) { return lowering.ReductionSize(lowering.buckets[bucket]) > 1; }

void AppendReduction(const Lowering& lowering, int index, std::vector<Action>& actions) {
  if (!IsReduced(lowering, index)) return;
  const GradientBucket& bucket = lowering.buckets[index];
  const program::Provenance backward{bucket.name, Pass::kBackward};
  for (int part = 0; part < bucket.reduction_parts; ++part) {
    actions.push_back({.body = ReduceGradients{index, part}, .provenance = backward});
  }
  if (lowering.options.expose_gradients && lowering.plan.reduction == Reduction::kSharded) {
    actions.push_back({.body = GatherGradients{index}, .provenance = backward});
  }
}

void AppendUpdate(const Lowering& lowering, int index, std::vector<Action>& actions) {
  const program::Provenance update{lowering.buckets[index].name, Pass::kUpdate};
  actions.push_back({.body = UpdateParameters{index}, .provenance = update});
  if (IsReduced(lowering, index) && GathersParameters(lowering.plan))
    actions.push_back({.body = GatherParameters{index}, .provenance = update});
  if (lowering.options.update.average_decay > 0) actions.push_back({.body = AverageParameters{index}, .provenance = update});
}

// By bucket: the last action that reads a parameter of it, after which alone it may be updated.
std::vector<size_t> LastReaders(const Lowering& lowering) {
  std::vector<size_t> last(lowering.buckets.size(), 0);
  for (size_t i = 0; i < lowering.actions.size(); ++i) {
    for (const ActionOperand& operand : lowering.actions[i].inputs) {
      const auto* parameter = operand.value.valid() ? lowering.value(operand.value).As<TrainedParameter>() : nullptr;
      if (parameter != nullptr) last[lowering.parameters[parameter->index].bucket] = i;
    }
  }
  return last;
}

void MoveAll(std::vector<Action>& actions, std::vector<Action>& to) {
  to.insert(to.end(), std::move_iterator(actions.begin()), std::move_iterator(actions.end()));
  actions.clear();
}

class GradientReducer {
 public:
  explicit GradientReducer(Lowering& lowering)
      : lowering_(lowering),
        overlap_(lowering.plan.overlap),
        gated_(lowering.options.update.is_gated()),
        last_readers_(LastReaders(lowering)) {
    for (const GradientBucket& bucket : lowering.buckets) missing_.push_back(static_cast<int>(bucket.parameters.size()));
  }

  void Run() {
    for (size_t i = 0; i < lowering_.actions.size(); ++i) {
      const std::vector<int> made = GradientsMadeBy(lowering_, lowering_.actions[i]);
      Keep(std::move(lowering_.actions[i]));
      for (int parameter : made) {
        const int bucket = lowering_.parameters[parameter].bucket;
        if (--missing_[bucket] <= 0) Complete(bucket, i);
      }
      UpdateAfterReader(i);
    }
    if (gated_) AppendGatedUpdates();
    MoveAll(after_backward_, actions_);
    lowering_.actions = std::move(actions_);
  }

  absl::Status CheckThatAllAreMade() const {
    for (size_t b = 0; b < missing_.size(); ++b) {
      if (missing_[b] == 0) continue;
      return absl::InternalError(absl::StrCat("InsertGradientReduction: ", missing_[b], " gradients of ",
                                              lowering_.buckets[b].name, " are never made"));
    }
    return absl::OkStatus();
  }

 private:
  // Updates of state obey a gate as those of parameters do.
  void Keep(Action action) {
    const bool waits = gated_ && UpdatesStateAlone(lowering_, action);
    (waits ? state_updates_ : actions_).push_back(std::move(action));
  }

  // Checks, reduces and updates a bucket whose last gradient action `maker` makes.
  void Complete(int bucket, size_t maker) {
    const std::string& name = lowering_.buckets[bucket].name;
    actions_.push_back({.body = CheckGradients{bucket}, .provenance = {name, Pass::kBackward}});
    std::vector<Action>& reductions = overlap_ ? actions_ : after_backward_;
    AppendReduction(lowering_, bucket, reductions);
    if (gated_) reductions.push_back({.body = MeasureGradients{bucket}, .provenance = {name, Pass::kUpdate}});
    Update(bucket, maker);
  }

  // A bucket is not updated before the last action that reads its parameters, nor before the gate that it obeys.
  void Update(int bucket, size_t maker) {
    if (gated_) {
      AppendUpdate(lowering_, bucket, gated_updates_);
    } else if (!overlap_) {
      AppendUpdate(lowering_, bucket, after_backward_);
    } else if (last_readers_[bucket] > maker) {
      after_reader_[last_readers_[bucket]].push_back(bucket);
    } else {
      AppendUpdate(lowering_, bucket, actions_);
    }
  }

  void UpdateAfterReader(size_t reader) {
    const auto buckets = after_reader_.find(reader);
    if (buckets == after_reader_.end()) return;
    for (int bucket : buckets->second) AppendUpdate(lowering_, bucket, actions_);
  }

  // The gate follows the norms of all gradients.
  void AppendGatedUpdates() {
    const program::Provenance gate{LayerNames(lowering_.graph).Unlike("gate"), Pass::kUpdate};
    if (lowering_.plan.mesh.device_count() > 1) after_backward_.push_back({.body = SumNorms{}, .provenance = gate});
    after_backward_.push_back({.body = OpenGate{}, .provenance = gate});
    MoveAll(gated_updates_, after_backward_);
    MoveAll(state_updates_, after_backward_);
  }

  Lowering& lowering_;
  const bool overlap_, gated_;
  const std::vector<size_t> last_readers_;  // by bucket
  std::vector<int> missing_;                // by bucket: gradients that are not made yet
  std::vector<Action> actions_, after_backward_;
  std::vector<Action> gated_updates_, state_updates_;
  absl::flat_hash_map<size_t, std::vector<int>> after_reader_;  // buckets by the action after which they are updated
};

}  // namespace

absl::Status InsertGradientReduction(Lowering& lowering) {
  if (!lowering.train()) return absl::OkStatus();
  if (lowering.buckets.empty() != lowering.parameters.empty()) {
    return absl::InternalError("InsertGradientReduction: expected buckets");
  }
  GradientReducer reducer(lowering);
  reducer.Run();
  return reducer.CheckThatAllAreMade();
}

}  // namespace colonnade::partition
