#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "partition/lowering/passes.h"
#include "partition/lowering/value_uses.h"

namespace colonnade::partition {
namespace {

class Fuser {
 public:
  explicit Fuser(Lowering& lowering) : lowering_(lowering), uses_(lowering.actions) {}

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
  bool Fuse(const Action& action) {
    const layers::Stage* stage = lowering_.StageOf(action);
    if (stage == nullptr) return false;
    const auto* activation = std::get_if<program::Activation>(&stage->meaning);
    return activation != nullptr ? FuseActivation(action, *activation)
                                 : stage->Means<layers::Addition>() && FuseAddition(action);
  }

  // Makes an activation part of the action whose output it alone reads. A sum that is still to be done over devices cannot
  // be cut off at zero; resharding stands between then, so that what is fused is whole here.
  bool FuseActivation(const Action& activation, program::Activation epilogue) {
    const ValueId x = activation.inputs[0].value;
    Action* source = OnlyFor(x);
    if (source == nullptr || !lowering_.StageOf(*source)->accepts.epilogue) return false;
    auto& run = std::get<RunStage>(source->body);
    if (run.epilogue) return false;
    run.epilogue = epilogue;
    Replace(*source, x, activation.outputs[0]);
    return true;
  }

  // Makes the sum of two values part of the action that made the one which was made last, so that the other is there.
  bool FuseAddition(const Action& addition) {
    if (addition.inputs.size() != 2) return false;
    ValueId x = addition.inputs[0].value, addend = addition.inputs[1].value;
    if (PlaceOf(x) < PlaceOf(addend)) std::swap(x, addend);
    Action* source = OnlyFor(x);
    if (source == nullptr || !lowering_.StageOf(*source)->accepts.addend) return false;
    auto& run = std::get<RunStage>(source->body);
    const ValueId y = addition.outputs[0];
    if (run.epilogue || !run.fused_reads.empty() || !lowering_.LieAlike(x, addend) || !lowering_.LieAlike(x, y))
      return false;
    run.fused_reads = {layers::Fused::kAddend};
    source->inputs.push_back({addend, lowering_.value(addend).placement});
    Replace(*source, x, y);
    return true;
  }

  // The action of a stage that makes `x` for one reader alone, or null.
  Action* OnlyFor(ValueId x) {
    const std::optional<size_t> maker = uses_.MakerForOneReader(x);
    if (!maker.has_value()) return nullptr;
    Action& source = lowering_.actions[*maker];
    return lowering_.StageOf(source) != nullptr ? &source : nullptr;
  }
  void Replace(Action& source, ValueId x, ValueId y) {
    std::replace(source.outputs.begin(), source.outputs.end(), x, y);
    uses_.SetMaker(y, *uses_.MakerOf(x));
  }
  // Returns the place of the action that makes a value; −1 for what is there from the beginning.
  int64_t PlaceOf(ValueId value) const {
    const std::optional<size_t> maker = uses_.MakerOf(value);
    return maker.has_value() ? static_cast<int64_t>(*maker) : -1;
  }

  Lowering& lowering_;
  ValueUses uses_;
};

}  // namespace

absl::Status FuseEpilogues(Lowering& lowering) {
  for (const Action& action : lowering.actions) {
    const auto* run = std::get_if<RunStage>(&action.body);
    if (run != nullptr && run->epilogue) return absl::InternalError("FuseEpilogues: an action is fused already");
  }
  Fuser(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
