#include <algorithm>
#include <utility>
#include <vector>

#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

using layers::HasRows;
using layers::Slot;

bool IsCollective(const Action& action) {
  const auto* reshard = std::get_if<Reshard>(&action.body);
  return reshard != nullptr && CollectiveOf(reshard->entry.kind);
}

class Splitter {
 public:
  explicit Splitter(Lowering& lowering)
      : lowering_(lowering), near_products_(lowering.values.size(), false), in_parts_(lowering.values.size(), false) {}

  void Run() {
    FindNearProducts();
    FindParts();
    std::vector<Action> computed;  // in parts, and not emitted yet
    for (Action& action : lowering_.actions) {
      const bool is_split = IsSplit(action);
      if (is_split && !IsCollective(action)) {
        computed.push_back(std::move(action));
        continue;
      }
      EmitParts(computed);
      if (is_split) {
        computed.push_back(std::move(action));
        EmitParts(computed);
      } else {
        out_.push_back(std::move(action));
      }
    }
    EmitParts(computed);
    lowering_.actions = std::move(out_);
  }

 private:
  // All of the first part, then all of the next, so that what reads the first need not wait for more.
  void EmitParts(std::vector<Action>& actions) {
    for (int part = 0; part < lowering_.batch_parts; ++part) {
      for (const Action& action : actions) out_.emplace_back(action).batch_part = part;
    }
    actions.clear();
  }

  // The values with a row for each sample that an action may read and make part by part; none where it may not.
  std::vector<ValueId> RowsOf(const Action& action) const {
    std::vector<ValueId> rows;
    const auto add = [&](ValueId value) {
      if (value.valid()) rows.push_back(value);
    };
    if (std::holds_alternative<Reshard>(action.body) || std::holds_alternative<Round>(action.body)) {
      add(action.inputs[0].value);
      add(action.outputs[0]);
    } else if (const layers::Stage* stage = lowering_.StageOf(action); stage != nullptr && stage->by_sample) {
      for (size_t k = 0; k < action.inputs.size(); ++k) {
        if (ReadsRows(action, *stage, k)) add(action.inputs[k].value);
      }
      for (size_t k = 0; k < action.outputs.size(); ++k) {
        if (WritesRows(action, *stage, k)) add(action.outputs[k]);
      }
    }
    return rows;
  }
  static bool ReadsRows(const Action& action, const layers::Stage& stage, size_t k) {
    if (k < stage.reads.size()) return HasRows(stage.reads[k]);
    return HasRows(std::get<RunStage>(action.body).fused_reads[k - stage.reads.size()]);
  }

  static bool WritesRows(const Action& action, const layers::Stage& stage, size_t k) {
    if (k < stage.writes.size()) return HasRows(stage.writes[k]);
    return HasRows(std::get<RunStage>(action.body).fused_writes[k - stage.writes.size()]);
  }

  // Whether a stage has weights for each sample, or copies of them.
  bool Multiplies(const Action& action) const {
    const layers::Stage* stage = lowering_.StageOf(action);
    return stage != nullptr && stage->by_sample &&
           !std::all_of(stage->reads.begin(), stage->reads.end(), [](Slot slot) { return HasRows(slot); });
  }

  // Marks all rows of actions that `starts` takes, then those of actions that `passes_on` takes and that have a marked one,
  // in time in proportion to all rows.
  template <class Starts, class PassesOn>
  void Mark(std::vector<bool>& marked, const Starts& starts, const PassesOn& passes_on) const {
    const std::vector<Action>& actions = lowering_.actions;
    std::vector<std::vector<size_t>> next(lowering_.values.size());  // by value: actions that pass on its mark
    std::vector<size_t> todo;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (starts(actions[i])) todo.push_back(i);
      if (!passes_on(actions[i])) continue;
      for (ValueId value : RowsOf(actions[i])) next[value.value].push_back(i);
    }
    while (!todo.empty()) {
      const size_t i = todo.back();
      todo.pop_back();
      for (ValueId value : RowsOf(actions[i])) {
        if (marked[value.value]) continue;
        marked[value.value] = true;
        todo.insert(todo.end(), next[value.value].begin(), next[value.value].end());
      }
    }
  }

  // Marks the values with rows that a sample-wise stage with weights reads or makes, and all values that are connected to
  // these by sample-wise actions, forwards or backwards.
  void FindNearProducts() {
    Mark(
        near_products_, [&](const Action& action) { return Multiplies(action); }, [](const Action&) { return true; });
  }
  // Marks the values near products that a collective moves, and those that stages without weights tie to them.
  void FindParts() {
    const auto moves = [&](const Action& action) { return IsCollective(action) && near_products_[action.outputs[0].value]; };
    Mark(in_parts_, moves, [&](const Action& action) { return !Multiplies(action); });
  }

  bool IsSplit(const Action& action) const {
    const std::vector<ValueId> rows = RowsOf(action);
    const bool in_parts = std::any_of(rows.begin(), rows.end(), [&](ValueId value) { return in_parts_[value.value]; });
    return in_parts || DrawsForSections(action);
  }
  // An op draws for one box, and samples of several sections are several.
  bool DrawsForSections(const Action& action) const {
    const layers::Stage* stage = lowering_.StageOf(action);
    if (stage == nullptr || !stage->draws) return false;
    const TensorPlacement& placement = lowering_.value(action.outputs[0]).placement;
    return std::any_of(placement.begin(), placement.end(),
                       [](const layers::Placement& p) { return p.dim == 0 && !p.sections.empty(); });
  }

  Lowering& lowering_;
  std::vector<bool> near_products_, in_parts_;  // by value
  std::vector<Action> out_;
};

}  // namespace

absl::Status SplitTransfers(Lowering& lowering) {
  if (lowering.batch_parts > 1) Splitter(lowering).Run();
  return absl::OkStatus();
}

}  // namespace colonnade::partition
