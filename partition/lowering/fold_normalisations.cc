#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partition/lowering/passes.h"
#include "partition/lowering/value_uses.h"

namespace colonnade::partition {
namespace {

using layers::Fused;
using layers::Parameter;
using layers::X;
using layers::Y;

class Folder {
 public:
  explicit Folder(Lowering& lowering) : lowering_(lowering), uses_(lowering.actions) {}

  // What folds goes where the product is, which comes after it.
  void Run() {
    std::vector<std::optional<size_t>> folded(actions().size());  // by product
    std::vector<bool> moves(actions().size(), false);
    for (size_t i = 0; i < actions().size(); ++i) {
      const std::optional<size_t> product = ProductFor(actions()[i]);
      if (!product.has_value()) continue;
      Fold(actions()[i], actions()[*product]);
      folded[*product] = i;
      moves[i] = true;
    }
    std::vector<Action> all;
    for (size_t i = 0; i < actions().size(); ++i) {
      if (folded[i].has_value()) all.push_back(std::move(actions()[*folded[i]]));
      if (!moves[i]) all.push_back(std::move(actions()[i]));
    }
    actions() = std::move(all);
  }

 private:
  std::vector<Action>& actions() { return lowering_.actions; }

  // The action whose product `action` scales and shifts, if it may do so itself.
  std::optional<size_t> ProductFor(const Action& action) {
    const layers::Stage* stage = lowering_.StageOf(action);
    const bool scales = stage != nullptr && stage->Means<layers::ChannelScaling>();
    if (!scales || !std::get<RunStage>(action.body).fused_reads.empty()) return std::nullopt;
    const ValueId x = lowering_.Input(action, X()).value;
    const std::optional<size_t> maker = uses_.MakerForOneReader(x);
    if (!maker.has_value()) return std::nullopt;
    const Action& product = actions()[*maker];
    return Takes(product) && LiesByChannel(action, product) && Saves(product, x) ? maker : std::nullopt;
  }

  bool Takes(const Action& product) const {
    const layers::Stage* stage = lowering_.StageOf(product);
    return stage != nullptr && stage->accepts.folded && !std::get<RunStage>(product.body).epilogue;
  }

  // Whether each device has the numbers of those channels whose weights it has, and of these all.
  bool LiesByChannel(const Action& action, const Action& product) const {
    return lowering_.LieAlike(lowering_.Input(action, Parameter(0)).value, lowering_.Input(product, Parameter(0)).value);
  }

  // Folding reads and writes the weight once, as rounding does, which it takes the place of.
  bool Saves(const Action& product, ValueId x) const {
    const bool rounds = program::MasterType(lowering_.options.dtype) != lowering_.options.dtype;
    return rounds || lowering_.LocalElements(lowering_.Input(product, Parameter(0)).value) <= lowering_.LocalElements(x);
  }

  // Leaves of `action` what folds, and lets the product make what it made.
  void Fold(Action& action, Action& product) {
    auto &normalise = std::get<RunStage>(action.body), &multiply = std::get<RunStage>(product.body);
    ActionOperand& weight = lowering_.Input(product, Parameter(0));
    ActionOperand* bias = lowering_.FindInput(product, Parameter(1));
    const ValueId folded_weight = AddFolded(action, "weight", weight.value);
    const ValueId folded_bias = AddFolded(action, "bias", lowering_.Input(action, Parameter(0)).value);
    multiply.epilogue = std::exchange(normalise.epilogue, std::nullopt);
    product.outputs[0] = lowering_.Output(action, Y());
    lowering_.Input(action, X()) = {};
    action.outputs.assign(action.outputs.size(), ValueId{});

    normalise.fused_reads = {Fused::kWeight};
    normalise.fused_writes = {Fused::kFoldedWeight, Fused::kFoldedBias};
    action.inputs.push_back(weight);
    action.outputs.insert(action.outputs.end(), {folded_weight, folded_bias});
    weight = {folded_weight, PlacementOf(folded_weight)};
    const ActionOperand added = {folded_bias, PlacementOf(folded_bias)};
    if (bias != nullptr) {
      normalise.fused_reads.push_back(Fused::kBias);
      action.inputs.push_back(std::exchange(*bias, added));
    } else {
      multiply.fused_reads = {Fused::kBias};
      product.inputs.push_back(added);
    }
  }

  ValueId AddFolded(const Action& action, const char* name, ValueId like) {
    return lowering_.AddValue({.name = absl::StrCat(action.provenance.layer, ".folded_", name),
                               .shape = lowering_.value(like).shape,
                               .placement = PlacementOf(like)});
  }
  const TensorPlacement& PlacementOf(ValueId value) const { return lowering_.value(value).placement; }

  Lowering& lowering_;
  ValueUses uses_;
};

}  // namespace

absl::Status FoldNormalisations(Lowering& lowering) {
  Folder(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
