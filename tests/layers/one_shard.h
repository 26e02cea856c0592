// One shard of a layer: named operands, and the ops that the layer's stages emit on them in words.
#ifndef COLONNADE_TESTS_LAYERS_ONE_SHARD_H_
#define COLONNADE_TESTS_LAYERS_ONE_SHARD_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/layer.h"
#include "tests/layers/layer_case.h"

namespace colonnade::layers {

using program::Region;
using program::Shape;

inline const std::vector<Shape> kFlat = {{2, 12}};

// The operands of one shard, each with a name, and the ops that a layer's stages emit on them in words.
class OneShard {
 public:
  // A device that holds `local` of `whole`, from element 0 on. In evaluation no inner tensor is there that backward alone
  // would read.
  OneShard(const Layer& layer, const LayerShapes& local, const LayerShapes& whole, const StageOptions& options = {})
      : stages_(Stages(layer, whole, options)) {
    const bool loss = IsLoss(layer);
    const std::vector<std::string> parameters = {"w", "b"};
    for (size_t i = 0; i < local.inputs.size(); ++i) {
      const char* of_loss[] = {"x", "labels", "label_count"};
      const std::string input = local.inputs.size() == 1 ? "x" : absl::StrCat("x", i);
      Add(X(static_cast<int>(i)), loss ? of_loss[i] : input, local.inputs[i], whole.inputs[i]);
    }
    for (size_t i = 0; i < local.parameters.size(); ++i) {
      Add(Parameter(static_cast<int>(i)), parameters[i], local.parameters[i], whole.parameters[i]);
    }
    for (size_t i = 0; i < local.state.size(); ++i) {
      Add(State(static_cast<int>(i)), stages_.state[i].name, local.state[i], whole.state[i]);
    }
    const std::vector<InnerSpec> inner = Stages(layer, local, options).inner;
    for (int v = 0; v < static_cast<int>(inner.size()); ++v) {
      Add(Inner(v), inner[v].name, inner[v].shape, stages_.inner[v].shape);
      if (!options.train && !inner[v].required && !IsReadForward(Inner(v))) unwanted_.push_back(Inner(v));
    }
    Add(Y(), loss ? "metrics" : "y", local.output, whole.output);
    const size_t count = operands_.size();
    for (size_t i = 0; i < count; ++i) {
      const Named of = operands_[i];
      Add(D(of.slot), "d" + of.name, of.operand.shape, of.operand.global_shape);
    }
    Add({}, "scalars", {program::StepScalar::kCount}, {});
  }
  OneShard(const Layer& layer, const std::vector<Shape>& inputs, const StageOptions& options = {})
      : OneShard(layer, ShapesOf(layer, inputs), ShapesOf(layer, inputs), options) {}

  // Nobody reads it.
  void DoNotWant(Slot slot) { unwanted_.push_back(slot); }
  // Where the part of every tensor of `of`'s extents begins in it.
  void Offset(const Shape& of, const Shape& offset) {
    for (Named& named : operands_) {
      if (named.operand.global_shape == of) named.operand.offset = offset;
    }
  }

  // With operands of what lowering fuses, which have the extents of `of`.
  std::vector<std::string> FusedWords(int index, Slot of, const std::vector<std::pair<Fused, std::string>>& fused,
                                      int64_t* flops = nullptr) {
    const Operand like = OperandOf(of);
    StageShard shard = ShardOf(stages_.stages[index]);
    for (const auto& [which, name] : fused) {
      Add({}, name, like.shape, like.global_shape);
      shard.Put(which, operands_.back().operand);
    }
    const std::vector<EmittedOp> ops = stages_.stages[index].emit(shard);
    if (flops != nullptr) *flops = ops.back().flops;
    return Words(ops);
  }
  std::vector<EmittedOp> Stage(int index, std::optional<program::Activation> epilogue = {}) const {
    const layers::Stage& stage = stages_.stages[index];
    StageShard shard = ShardOf(stage);
    shard.epilogue = epilogue;
    return stage.emit ? stage.emit(shard) : std::vector<EmittedOp>();
  }
  std::vector<EmittedOp> Forward() const { return All(program::Pass::kForward); }
  std::vector<EmittedOp> Backward() const { return All(program::Pass::kBackward); }
  std::vector<std::string> StageWords(int index) const { return Words(Stage(index)); }
  std::vector<std::string> ForwardWords() const { return Words(Forward()); }
  std::vector<std::string> BackwardWords() const { return Words(Backward()); }
  const LayerStages& stages() const { return stages_; }

  // "conv_forward read x, read w, write y"; a region is told where it is not the whole operand.
  std::vector<std::string> Words(const std::vector<EmittedOp>& ops) const {
    std::vector<std::string> lines;
    for (const EmittedOp& op : ops) {
      std::string line = Name(op.op);
      const char* comma = " ";
      for (const program::BufferUse& use : op.uses) {
        const Named& of = operands_[use.buffer.value];
        absl::StrAppend(&line, comma, Name(use.access), " ", of.name);
        if (use.region != Region::Whole(of.operand.shape)) absl::StrAppend(&line, ToString(use.region));
        comma = ", ";
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  struct Named {
    Slot slot;
    std::string name;
    Operand operand;
  };

  StageShard ShardOf(const layers::Stage& stage) const {
    StageShard shard;
    shard.scalars = operands_.back().operand;
    for (Slot slot : stage.reads) shard.Put(slot, OperandOf(slot));
    for (Slot slot : stage.writes) {
      if (!IsUnwanted(slot)) shard.Put(slot, OperandOf(slot));
    }
    return shard;
  }
  void Add(Slot slot, std::string name, const Shape& shape, const Shape& global) {
    const program::BufferId buffer{static_cast<int32_t>(operands_.size())};
    operands_.push_back({slot, std::move(name), {buffer, shape, global, Shape(shape.size(), 0)}});
  }
  const Operand& OperandOf(Slot slot) const {
    const auto is_it = [&](const Named& named) { return named.slot == slot; };
    return std::find_if(operands_.begin(), operands_.end(), is_it)->operand;
  }
  bool IsUnwanted(Slot slot) const { return std::find(unwanted_.begin(), unwanted_.end(), slot) != unwanted_.end(); }
  bool IsReadForward(Slot slot) const {
    return std::any_of(stages_.stages.begin(), stages_.stages.end(), [&](const layers::Stage& stage) {
      return stage.pass == program::Pass::kForward &&
             std::find(stage.reads.begin(), stage.reads.end(), slot) != stage.reads.end();
    });
  }

  // Of the stages of a pass of which something is wanted, or which update the state alone.
  std::vector<EmittedOp> All(program::Pass pass) const {
    std::vector<EmittedOp> all;
    for (int s = 0; s < static_cast<int>(stages_.stages.size()); ++s) {
      const std::vector<Slot>& writes = stages_.stages[s].writes;
      const bool runs =
          writes.empty() || !std::all_of(writes.begin(), writes.end(), [&](Slot slot) { return IsUnwanted(slot); });
      if (stages_.stages[s].pass != pass || !runs) continue;
      for (EmittedOp& op : Stage(s)) all.push_back(std::move(op));
    }
    return all;
  }

  LayerStages stages_;
  std::vector<Named> operands_;  // the scalars last
  std::vector<Slot> unwanted_;
};

}  // namespace colonnade::layers

#endif  // COLONNADE_TESTS_LAYERS_ONE_SHARD_H_
