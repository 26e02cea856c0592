#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partition/lowering/layer_names.h"
#include "partition/lowering/passes.h"
#include "partition/lowering/value_uses.h"

namespace colonnade::partition {
namespace {

// A sum over devices.
struct StateSum {
  ValueId summand, whole;           // each device's part, and the sum
  std::vector<size_t> all_reduces;  // the actions that lead from one to the other, the last first
};

class Bucketer {
 public:
  explicit Bucketer(Lowering& lowering) : lowering_(lowering), uses_(lowering.actions), names_(lowering.graph) {}

  void Run() {
    for (const auto& [last, sum] : StateSums()) Add(sum);
    std::map<size_t, int> bucket_behind;  // by action
    for (size_t b = 0; b < reductions_.size(); ++b) bucket_behind[reductions_[b].last] = static_cast<int>(b);
    std::vector<Action> actions;
    for (size_t i = 0; i < lowering_.actions.size(); ++i) {
      if (!replaced_.contains(i)) actions.push_back(std::move(lowering_.actions[i]));
      if (const auto bucket = bucket_behind.find(i); bucket != bucket_behind.end()) {
        actions.push_back(ReductionOf(bucket->second));
      }
    }
    lowering_.actions = std::move(actions);
  }

 private:
  using Kind = std::pair<std::vector<int>, program::DType>;  // axes, and type

  // By their last all-reduce, so in the order in which they are made.
  std::map<size_t, StateSum> StateSums() const {
    std::map<size_t, StateSum> sums;
    for (const Action& action : lowering_.actions) {
      if (!UpdatesStateAlone(lowering_, action)) continue;
      for (const ActionOperand& operand : action.inputs) {
        if (!operand.value.valid()) continue;
        if (const std::optional<StateSum> sum = SumAt(operand.value)) sums[sum->all_reduces[0]] = *sum;
      }
    }
    return sums;
  }

  // The sum that `whole` is, if nothing else reads it or what it is made of.
  std::optional<StateSum> SumAt(ValueId whole) const {
    StateSum sum{.summand = whole, .whole = whole, .all_reduces = {}};
    for (auto maker = uses_.MakerForOneReader(whole); maker.has_value() && IsAllReduce(lowering_.actions[*maker]);
         maker = uses_.MakerForOneReader(sum.summand)) {
      sum.all_reduces.push_back(*maker);
      sum.summand = lowering_.actions[*maker].inputs[0].value;
    }
    const Value& summand = lowering_.value(sum.summand);
    const bool has_type = summand.dtype.has_value() || summand.in_master_type;
    const bool has_memory_of_its_own = !summand.in_place_of.valid();
    const bool is_sum = !sum.all_reduces.empty() && uses_.ReadersOf(sum.summand) == 1;
    return is_sum && has_type && has_memory_of_its_own ? std::optional(std::move(sum)) : std::nullopt;
  }

  static bool IsAllReduce(const Action& action) {
    const auto* reshard = std::get_if<Reshard>(&action.body);
    return reshard != nullptr && reshard->entry.kind == ReshardKind::kAllReduce &&
           reshard->entry.from == layers::Placement::Partial();
  }

  void Add(const StateSum& sum) {
    std::vector<int> axes;
    for (size_t all_reduce : sum.all_reduces) {
      axes.push_back(std::get<Reshard>(lowering_.actions[all_reduce].body).entry.axis);
      replaced_.insert(all_reduce);
    }
    std::sort(axes.begin(), axes.end());
    const Value& summand = lowering_.value(sum.summand);
    const program::DType dtype = summand.dtype.value_or(program::MasterType(lowering_.options.dtype));
    Open& open = open_[{axes, dtype}];
    if (open.bucket < 0 || open.bytes >= lowering_.plan.bucket_bytes) {
      open = {.bucket = static_cast<int>(reductions_.size())};
      lowering_.statistics.push_back(
          {.name = names_.Unlike(absl::StrCat("statistics", open.bucket)), .axes = axes, .values = {}});
      reductions_.emplace_back();
    }
    lowering_.statistics[open.bucket].values.push_back(sum.summand);
    reductions_[open.bucket].wholes.push_back(sum.whole);
    reductions_[open.bucket].last = sum.all_reduces[0];
    lowering_.values[sum.whole.value].in_place_of = sum.summand;
    open.bytes += lowering_.LocalElements(sum.summand) * program::SizeInBytes(dtype);
  }

  Action ReductionOf(int bucket) const {
    const StatisticsBucket& statistics = lowering_.statistics[bucket];
    Action action{.body = ReduceStatistics{bucket},
                  .outputs = reductions_[bucket].wholes,
                  .provenance = {statistics.name, program::Pass::kForward}};
    for (ValueId summand : statistics.values) action.inputs.push_back({summand, lowering_.value(summand).placement});
    return action;
  }

  struct Open {  // the last bucket of its kind
    int bucket = -1;
    int64_t bytes = 0;
  };
  struct BucketReduction {
    std::vector<ValueId> wholes;
    size_t last = 0;  // the last action that it stands for
  };

  Lowering& lowering_;
  const ValueUses uses_;
  const LayerNames names_;
  std::map<Kind, Open> open_;
  std::vector<BucketReduction> reductions_;  // by bucket
  std::set<size_t> replaced_;
};

}  // namespace

absl::Status BucketStatistics(Lowering& lowering) {
  std::stable_partition(lowering.actions.begin(), lowering.actions.end(),
                        [&](const Action& action) { return !UpdatesStateAlone(lowering, action); });
  Bucketer(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
