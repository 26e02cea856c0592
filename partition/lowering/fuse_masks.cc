#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "partition/lowering/passes.h"
#include "partition/lowering/value_uses.h"

namespace colonnade::partition {
namespace {

using layers::D;
using layers::Fused;
using layers::Stage;
using layers::X;
using layers::Y;

class MaskFuser {
 public:
  explicit MaskFuser(Lowering& lowering)
      : lowering_(lowering), gone_(lowering.actions.size(), false), uses_(lowering.actions) {}

  void Run() {
    for (size_t i = 0; i < actions().size(); ++i) {
      const std::optional<Mask> mask = MaskAt(i);
      if (mask.has_value()) gone_[i] = Recall(i, *mask) || Take(i, *mask);
    }
    std::vector<Action> left;
    for (size_t i = 0; i < actions().size(); ++i) {
      if (taken_.contains(i)) left.push_back(std::move(taken_[i]));
      if (!gone_[i]) left.push_back(std::move(actions()[i]));
    }
    actions() = std::move(left);
  }

 private:
  struct Mask {
    ActionOperand y, dy;
    ValueId dz;
  };

  std::vector<Action>& actions() { return lowering_.actions; }

  std::optional<Mask> MaskAt(size_t i) {
    const Action& action = actions()[i];
    const Stage* stage = lowering_.StageOf(action);
    if (stage == nullptr || !stage->Means<layers::Masking>()) return std::nullopt;
    const Mask mask = {lowering_.Input(action, Y()), lowering_.Input(action, D(Y())), lowering_.Output(action, D(X()))};
    const bool alike =
        mask.dz.valid() && lowering_.LieAlike(mask.y.value, mask.dz) && lowering_.LieAlike(mask.dy.value, mask.dz);
    return alike ? std::optional(mask) : std::nullopt;
  }

  // Returns the layer whose stage makes `y` with a fused activation and nothing else fused; −1 if there is none.
  int LayerBefore(ValueId y) {
    const std::optional<size_t> maker = uses_.MakerOf(y);
    const auto* run = maker.has_value() ? std::get_if<RunStage>(&actions()[*maker].body) : nullptr;
    return run != nullptr && run->epilogue && run->fused_reads.empty() ? run->node : -1;
  }

  // Lets the stages that read the masked gradient mask it themselves, where all of them can.
  bool Recall(size_t i, const Mask& mask) {
    const int node = LayerBefore(mask.y.value);
    if (node < 0) return false;
    std::vector<Action*> readers;
    int left = uses_.ReadersOf(mask.dz);
    for (size_t j = i + 1; j < actions().size() && left > 0; ++j) {
      Action& action = actions()[j];
      const auto reads = std::count_if(action.inputs.begin(), action.inputs.end(),
                                       [&](const ActionOperand& input) { return input.value == mask.dz; });
      if (reads == 0) continue;
      left -= static_cast<int>(reads);
      const auto* run = std::get_if<RunStage>(&action.body);
      if (run == nullptr || run->node != node || !lowering_.stage(*run).accepts.recalled_mask) return false;
      readers.push_back(&action);
    }
    if (readers.empty()) return false;
    for (Action* reader : readers) {
      auto& run = std::get<RunStage>(reader->body);
      run.epilogue = std::get<RunStage>(actions()[*uses_.MakerOf(mask.y.value)].body).epilogue;
      lowering_.Input(*reader, D(Y())) = mask.dy;
    }
    uses_.AddReaders(mask.dy.value, static_cast<int>(readers.size()) - 1);
    return true;
  }

  // Puts the first stage after action i that reads the masked gradient, under whatever name, in place of the mask.
  bool Take(size_t i, const Mask& mask) {
    absl::flat_hash_set<ValueId> names = {mask.dz};
    int left = uses_.ReadersOf(mask.dz);  // of all names
    for (size_t j = i + 1; j < actions().size() && left > 0; ++j) {
      if (gone_[j]) continue;
      for (const ActionOperand& input : actions()[j].inputs) left -= names.contains(input.value) ? 1 : 0;
      const Stage* stage = lowering_.StageOf(actions()[j]);
      if (stage == nullptr) continue;
      if (!stage->emit && names.contains(actions()[j].inputs[0].value)) {
        for (ValueId name : actions()[j].outputs) {
          if (name.valid() && names.insert(name).second) left += uses_.ReadersOf(name);
        }
      }
      if (!stage->accepts.mask || !names.contains(lowering_.Input(actions()[j], D(Y())).value)) continue;
      if (!MayStandAt(i, actions()[j], names)) continue;
      taken_[i] = WithMask(std::move(actions()[j]), mask);
      for (ValueId output : taken_[i].outputs) uses_.SetMaker(output, i);
      gone_[j] = true;
      return true;
    }
    return false;
  }

  // Whether all that the action reads beside the gradient is made before action i.
  bool MayStandAt(size_t i, const Action& action, const absl::flat_hash_set<ValueId>& gradient) const {
    return std::all_of(action.inputs.begin(), action.inputs.end(), [&](const ActionOperand& operand) {
      const std::optional<size_t> maker = uses_.MakerOf(operand.value);
      return gradient.contains(operand.value) || !maker.has_value() || *maker < i;
    });
  }

  Action WithMask(Action action, const Mask& mask) {
    auto& run = std::get<RunStage>(action.body);
    ActionOperand& dy = lowering_.Input(action, D(Y()));
    run.fused_reads = {Fused::kMaskSource};
    run.fused_writes = {Fused::kMaskedGradient};
    dy = mask.dy;
    action.outputs.push_back(mask.dz);
    const std::optional<size_t> sum = SumOfTwoFor(mask.dy.value);
    if (!sum.has_value()) {
      action.inputs.push_back(mask.y);
      return action;
    }
    dy = actions()[*sum].inputs[0];
    action.inputs.insert(action.inputs.end(), {mask.y, actions()[*sum].inputs[1]});
    run.fused_reads.push_back(Fused::kGradientAddend);
    gone_[*sum] = true;
    return action;
  }

  // The action that adds two gradients for one reader alone.
  std::optional<size_t> SumOfTwoFor(ValueId dy) {
    const std::optional<size_t> maker = uses_.MakerForOneReader(dy);
    if (!maker.has_value()) return std::nullopt;
    const Action& sum = actions()[*maker];
    return std::holds_alternative<SumGradients>(sum.body) && sum.inputs.size() == 2 ? maker : std::nullopt;
  }

  Lowering& lowering_;
  std::vector<bool> gone_;                     // by action
  absl::flat_hash_map<size_t, Action> taken_;  // what stands in place of an action that is gone
  ValueUses uses_;
};

}  // namespace

absl::Status FuseMasks(Lowering& lowering) {
  for (const Action& action : lowering.actions) {
    const auto* run = std::get_if<RunStage>(&action.body);
    if (run != nullptr && !run->fused_writes.empty()) return absl::InternalError("FuseMasks: a mask is fused already");
  }
  MaskFuser(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
