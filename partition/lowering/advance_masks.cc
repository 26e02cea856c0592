#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/lowering/passes.h"
#include "partition/lowering/value_uses.h"

namespace colonnade::partition {
namespace {

using layers::D;
using layers::X;
using layers::Y;

const RunStage& RunOf(const Action& action) { return std::get<RunStage>(action.body); }
int NodeOf(const Action& action) { return RunOf(action).node; }

bool Masks(const Lowering& lowering, const Action& action) {
  const layers::Stage* stage = lowering.StageOf(action);
  return stage != nullptr && stage->Means<layers::Masking>() && lowering.Output(action, D(X())).valid();
}

bool Routes(const Lowering& lowering, const Action& action) {
  const layers::Stage* stage = lowering.StageOf(action);
  return stage != nullptr && stage->Means<layers::Routing>();
}

bool LayersLieAlike(const NodeSharding& a, const NodeSharding& b) {
  return a.output == b.output && a.output_gradient == b.output_gradient;
}

// Each mask moves once, past all that it may pass; the order is made anew at the end.
class MaskAdvancer {
 public:
  explicit MaskAdvancer(Lowering& lowering)
      : lowering_(lowering), uses_(lowering.actions), before_(lowering.actions.size()), moves_(lowering.actions.size()) {
    for (const Action& action : lowering.actions) {
      if (lowering.StageOf(action) == nullptr) continue;
      if (const ValueId* y = lowering.FindOutput(action, Y()); y != nullptr) outputs_.emplace(PlaceOf(action), *y);
    }
  }

  void Run() {
    for (size_t i = 0; i < actions().size(); ++i) {
      TakeNewNames(actions()[i]);
      if (const std::optional<size_t> routing = FirstRoutingBefore(actions()[i])) Advance(i, *routing);
    }
    Reorder();
  }

  // The first of the routing actions that stand, one behind the other, before `mask` and that it may pass.
  std::optional<size_t> FirstRoutingBefore(const Action& mask) const {
    std::optional<size_t> first;
    if (!Masks(lowering_, mask)) return first;
    for (auto next = RoutingBefore(mask, mask); next.has_value(); next = RoutingBefore(mask, lowering_.actions[*next])) {
      first = next;
    }
    return first;
  }

 private:
  using Place = std::pair<int, int>;  // node and micro-batch

  static Place PlaceOf(const Action& action) { return {NodeOf(action), RunOf(action).micro_batch}; }

  std::vector<Action>& actions() { return lowering_.actions; }

  // The routing action that makes the gradient that `reader` alone reads, where its layer lies as that of `mask` does on the
  // mesh and it makes more than it reads.
  std::optional<size_t> RoutingBefore(const Action& mask, const Action& reader) const {
    const ValueId da = lowering_.Input(reader, D(Y())).value;
    const std::optional<size_t> maker = uses_.MakerForOneReader(da);
    if (!maker.has_value() || !Routes(lowering_, lowering_.actions[*maker])) return std::nullopt;
    const Action& routing = lowering_.actions[*maker];
    const ValueId dp = lowering_.Input(routing, D(Y())).value;
    const bool widens = program::ElementCount(lowering_.value(dp).shape) < program::ElementCount(lowering_.value(da).shape);
    return widens && LayersLieAlike(lowering_.shardings[NodeOf(mask)], lowering_.shardings[NodeOf(routing)]) ? maker
                                                                                                             : std::nullopt;
  }

  void TakeNewNames(Action& action) const {
    for (ActionOperand& operand : action.inputs) {
      if (const auto renamed = renamed_.find(operand.value); renamed != renamed_.end()) operand.value = renamed->second;
    }
  }

  void Advance(size_t mask, size_t routing) {
    Action &of_mask = actions()[mask], &of_routing = actions()[routing];
    const ValueId dx = lowering_.Output(of_mask, D(X())), da = lowering_.Input(of_mask, D(Y())).value,
                  pooled = outputs_.at(PlaceOf(of_routing));
    lowering_.Input(of_mask, Y()).value = pooled;
    lowering_.Input(of_mask, D(Y())).value = std::exchange(lowering_.Input(of_routing, D(Y())).value, dx);
    lowering_.values[dx.value].shape = lowering_.value(pooled).shape;
    renamed_[dx] = da;
    uses_.AddReaders(da, uses_.ReadersOf(dx) - 1);  // those of dx in the place of the mask
    before_[routing].push_back(mask);
    moves_[mask] = true;
  }

  void Reorder() {
    std::vector<Action> ordered;
    for (size_t i = 0; i < actions().size(); ++i) {
      for (size_t mask : before_[i]) ordered.push_back(std::move(actions()[mask]));
      if (!moves_[i]) ordered.push_back(std::move(actions()[i]));
    }
    actions() = std::move(ordered);
  }

  Lowering& lowering_;
  ValueUses uses_;
  absl::flat_hash_map<Place, ValueId> outputs_;    // forward's
  absl::flat_hash_map<ValueId, ValueId> renamed_;  // what later actions read in the place of what a mask makes
  std::vector<std::vector<size_t>> before_;        // by routing action: the masks that go right before it, in order
  std::vector<bool> moves_;                        // by action
};

}  // namespace

// From   routing: dp → da, mask: y, da → dx     to   mask: p, dp → dx', routing: dx' → da
// with p the routing layer's y; dx' takes dx's name, and what read dx reads da. Behind several routings, dp is what the
// first of them reads, and da what the last makes.
absl::Status AdvanceMasks(Lowering& lowering) {
  MaskAdvancer(lowering).Run();
  const MaskAdvancer advanced(lowering);
  for (const Action& action : lowering.actions) {
    if (!advanced.FirstRoutingBefore(action).has_value()) continue;
    return absl::InternalError(
        absl::StrCat("AdvanceMasks: ", action.provenance.layer, " still comes after what it could mask"));
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
