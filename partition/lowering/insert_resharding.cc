#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "partition/lowering/layer_names.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

class Resharder {
 public:
  explicit Resharder(Lowering& lowering) : lowering_(lowering), names_(lowering.graph) {}

  void Run() {
    for (Action& action : lowering_.actions) {
      for (ActionOperand& operand : action.inputs) {
        if (operand.value.valid()) operand.value = Provide(operand.value, operand.needed, SourceOf(operand.value, action));
      }
      for (ValueId output : action.outputs) {
        if (output.valid()) made_by_[output] = action.provenance;
      }
      out_.push_back(std::move(action));
      if (std::holds_alternative<CountLabels>(out_.back().body)) MakeWhole(out_.back().outputs[0]);
    }
    lowering_.actions = std::move(out_);
  }

 private:
  // At once, so that it moves under forward, long before it is read.
  void MakeWhole(ValueId value) {
    const program::Provenance from = made_by_.at(value);  // a copy, since actions move
    Provide(value, TensorPlacement(lowering_.value(value).placement.size(), layers::Placement::Replicated()), from);
  }

  // An activation moves because of the layer that reads it, a gradient because of the layer that made it.
  program::Provenance SourceOf(ValueId value, const Action& reader) const {
    auto maker = made_by_.find(value);
    if (maker != made_by_.end() && maker->second.pass == program::Pass::kBackward) return maker->second;
    return reader.provenance;
  }

  // `value` in placement `needed`: itself, one made before, or one that actions put here make.
  ValueId Provide(ValueId value, const TensorPlacement& needed, const program::Provenance& from) {
    const std::pair<ValueId, TensorPlacement> key(value, needed);
    if (auto provided = provided_.find(key); provided != provided_.end()) return provided->second;
    const ValueId result = lowering_.value(value).Is<HostInputPart>() ? Load(value, needed) : Reshape(value, needed, from);
    provided_[key] = result;
    return result;
  }

  std::string SourceOfInput(const Value& input) const {
    const bool is_images = input.As<HostInputPart>()->input == program::HostInput::kImages;
    return is_images && input.name == lowering_.graph.nodes[0].name ? input.name : names_.Unlike(input.name);
  }

  // The host can load any box, so an input is loaded in each placement that is needed.
  ValueId Load(ValueId input, const TensorPlacement& needed) {
    Value value = lowering_.value(input);
    value.placement = needed;
    const std::string from = SourceOfInput(value);
    const ValueId loaded = lowering_.AddValue(std::move(value));
    out_.push_back({.body = LoadInput{}, .outputs = {loaded}, .provenance = {from, program::Pass::kInput}});
    return loaded;
  }

  // Entry by entry, planned anew after each: an all-reduce is done in place, so what was partial for an earlier reader is
  // whole from then on, also where it stands in the middle of a path.
  ValueId Reshape(ValueId value, const TensorPlacement& needed, const program::Provenance& from) {
    for (;;) {
      for (auto reduced = reduced_.find(value); reduced != reduced_.end(); reduced = reduced_.find(value)) {
        value = reduced->second;
      }
      const std::vector<ReshardEntry> path = ReshardPath(lowering_.plan.mesh, lowering_.value(value).placement, needed);
      if (path.empty()) return value;
      const ReshardEntry& entry = path.front();
      const std::tuple<ValueId, int, layers::Placement> key(value, entry.axis, entry.to);
      auto moved = moved_.find(key);
      if (moved == moved_.end()) moved = moved_.emplace(key, Append(value, entry, from)).first;
      value = moved->second;
    }
  }

  ValueId Append(ValueId value, const ReshardEntry& entry, const program::Provenance& from) {
    Value resharded = lowering_.value(value);
    resharded.placement[entry.axis] = entry.to;
    resharded.name = absl::StrCat(resharded.name.substr(0, resharded.name.find('@')), "@", ToString(resharded.placement));
    const bool in_place = entry.kind == ReshardKind::kAllReduce;
    resharded.in_place_of = in_place ? value : ValueId{};
    const ValueId result = lowering_.AddValue(std::move(resharded));
    if (in_place) reduced_[value] = result;
    out_.push_back({.body = Reshard{entry},
                    .inputs = {{value, lowering_.value(value).placement}},
                    .outputs = {result},
                    .provenance = from});
    return result;
  }

  Lowering& lowering_;
  const LayerNames names_;
  std::vector<Action> out_;
  absl::flat_hash_map<std::pair<ValueId, TensorPlacement>, ValueId> provided_;       // a value as it is needed
  absl::flat_hash_map<std::tuple<ValueId, int, layers::Placement>, ValueId> moved_;  // a value, placed so on this axis
  absl::flat_hash_map<ValueId, ValueId> reduced_;
  absl::flat_hash_map<ValueId, program::Provenance> made_by_;
};

}  // namespace

absl::Status InsertResharding(Lowering& lowering) {
  Resharder(lowering).Run();
  const Mesh& mesh = lowering.plan.mesh;
  for (const Action& action : lowering.actions) {
    for (const ActionOperand& operand : action.inputs) {
      if (!operand.value.valid()) continue;
      for (int a = 0; a < mesh.axis_count(); ++a) {
        if (mesh.axes[a].size > 1 && lowering.value(operand.value).placement[a] != operand.needed[a]) {
          return absl::InternalError(absl::StrCat("InsertResharding: ", lowering.value(operand.value).name, " is not as ",
                                                  action.provenance.layer, " needs it"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
