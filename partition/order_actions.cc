#include <algorithm>
#include <deque>

#include "partition/passes.h"

namespace colonnade::partition {
namespace {

// Nominal rates of one device. Only their ratio matters, and only for where an update stands among the backward actions.
constexpr double kFlopsPerSec = 100e9;
constexpr double kCommBytesPerSec = 5e9;
constexpr double kMemoryBytesPerSec = 10e9;
constexpr double kBytesPerElement = 4;

class Orderer {
 public:
  explicit Orderer(Lowering& lowering) : lowering_(lowering), reduced_(lowering.buckets.size(), 0.0) {}

  void Run() {
    for (Action& action : lowering_.actions) Place(action);
    while (!late_.empty()) EmitLate();
    lowering_.actions = std::move(out_);
  }

 private:
  struct Late {
    Action action;
    double ready;
  };

  void Place(Action& action) {
    if (const auto* reduce = std::get_if<ReduceGradients>(&action.what)) {
      comm_ = std::max(comm_, compute_) + BucketBytes(reduce->bucket) / kCommBytesPerSec;
      reduced_[reduce->bucket] = comm_;
    } else if (const auto* update = std::get_if<UpdateParameters>(&action.what)) {
      if (reduced_[update->bucket] > 0) return late_.push_back({std::move(action), reduced_[update->bucket]});
    } else if (const auto* gather = std::get_if<GatherParameters>(&action.what)) {
      return late_.push_back({std::move(action), reduced_[gather->bucket]});
    } else if (std::holds_alternative<Reshard>(action.what)) {
      compute_ = comm_ = std::max(comm_, compute_) + ValueBytes(action.outputs[0]) / kCommBytesPerSec;
    } else {
      while (!late_.empty() && late_.front().ready <= compute_) EmitLate();
      compute_ += ComputeSeconds(action);
    }
    out_.push_back(std::move(action));
  }

  void EmitLate() {
    compute_ = std::max(compute_, late_.front().ready);
    out_.push_back(std::move(late_.front().action));
    late_.pop_front();
  }

  double LocalElements(const TensorPlacement& placement, const program::Shape& shape) const {
    absl::StatusOr<program::Shape> local = LocalShape(lowering_.plan.mesh, placement, shape);
    return static_cast<double>(program::ElementCount(local.ok() ? *local : shape));
  }
  double ValueBytes(ValueId id) const {
    return LocalElements(lowering_.value(id).placement, lowering_.value(id).shape) * kBytesPerElement;
  }
  double BucketBytes(int bucket) const {
    return static_cast<double>(lowering_.LocalElements(lowering_.buckets[bucket])) * kBytesPerElement;
  }

  // A convolution or matrix product does 2·|y|·|w|/K flop forward, twice that backward; all else moves its output once.
  double ComputeSeconds(const Action& action) const {
    const auto* forward = std::get_if<Forward>(&action.what);
    const auto* backward = std::get_if<Backward>(&action.what);
    const int node = forward ? forward->node : backward ? backward->node : -1;
    double seconds = 0;
    for (ValueId output : action.outputs) {
      if (output.valid()) seconds += 2 * ValueBytes(output) / kMemoryBytesPerSec;
    }
    if (node < 0 || lowering_.graph.nodes[node].parameters.empty()) return seconds;
    const NodeSharding& sharding = lowering_.shardings[node];
    const program::Shape& weight = lowering_.graph.nodes[node].parameters[0].shape;
    const double y = LocalElements(sharding.output_gradient,
                                   lowering_.graph.OutputShape(layers::LayerId{node}, lowering_.options.global_batch));
    const double flops = 2 * y * static_cast<double>(program::ElementCount(weight) / weight[0]) * (backward ? 2 : 1);
    return seconds + flops / kFlopsPerSec;
  }

  Lowering& lowering_;
  std::vector<double> reduced_;  // by bucket: when its reduction is expected to end, or 0
  std::deque<Late> late_;
  std::vector<Action> out_;
  double compute_ = 0, comm_ = 0;
};

}  // namespace

absl::Status OrderActions(Lowering& lowering) {
  const size_t count = lowering.actions.size();
  if (lowering.plan.overlap) Orderer(lowering).Run();
  if (lowering.actions.size() != count) return absl::InternalError("OrderActions: actions were lost");
  return absl::OkStatus();
}

}  // namespace colonnade::partition
