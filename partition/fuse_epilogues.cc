#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

class Fuser {
 public:
  explicit Fuser(Lowering& lowering) : lowering_(lowering) {
    for (size_t i = 0; i < lowering_.actions.size(); ++i) {
      for (const ActionOperand& operand : lowering_.actions[i].inputs) ++readers_[operand.value];
      for (ValueId output : lowering_.actions[i].outputs) producer_[output] = i;
    }
  }

  void Run() {
    std::vector<bool> fused(lowering_.actions.size(), false);
    for (size_t i = 0; i < lowering_.actions.size(); ++i) fused[i] = Fuse(lowering_.actions[i]);
    std::vector<Action> actions;
    for (size_t i = 0; i < lowering_.actions.size(); ++i) {
      if (!fused[i]) actions.push_back(std::move(lowering_.actions[i]));
    }
    lowering_.actions = std::move(actions);
  }

 private:
  // Makes an activation part of the action whose output it alone reads. A sum that is still to be done over devices cannot
  // be cut off at zero; resharding stands between then, so that what is fused is whole here.
  bool Fuse(const Action& activation) {
    const layers::Stage* stage = lowering_.StageOf(activation);
    if (stage == nullptr || !stage->epilogue.has_value()) return false;
    const ValueId x = activation.inputs[0].value;
    const auto made = producer_.find(x);
    if (made == producer_.end() || readers_[x] != 1) return false;
    Action& source = lowering_.actions[made->second];
    const layers::Stage* makes = lowering_.StageOf(source);
    if (makes == nullptr || !makes->takes_epilogue) return false;
    std::get<RunStage>(source.what).epilogue = stage->epilogue;
    std::replace(source.outputs.begin(), source.outputs.end(), x, activation.outputs[0]);
    return true;
  }

  Lowering& lowering_;
  absl::flat_hash_map<ValueId, int> readers_;
  absl::flat_hash_map<ValueId, size_t> producer_;
};

}  // namespace

absl::Status FuseEpilogues(Lowering& lowering) {
  for (const Action& action : lowering.actions) {
    const auto* run = std::get_if<RunStage>(&action.what);
    if (run != nullptr && run->epilogue) return absl::InternalError("FuseEpilogues: an action is fused already");
  }
  Fuser(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
