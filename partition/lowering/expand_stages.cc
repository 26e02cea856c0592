#include "absl/strings/str_cat.h"
#include "layers/traits.h"
#include "partition/lowering/passes.h"
#include "partition/step_contents.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::LayerNode;
using layers::Slot;
using layers::Stage;
using program::Pass;

class Expander {
 public:
  explicit Expander(Lowering& lowering)
      : lowering_(lowering),
        graph_(lowering.graph),
        micro_batches_(static_cast<int>(lowering.options.micro_batches)),
        n_(lowering.options.samples_at_once()),
        contents_(graph_, lowering.options.mode, lowering.options.update.frozen_layers),
        nodes_(graph_.nodes.size()),
        contributions_(graph_.nodes.size()) {}

  void Run() {
    const int count = static_cast<int>(graph_.nodes.size());
    for (int i = 0; i < count; ++i) {
      AddParameters(i);
      AddState(i);
      nodes_[i].inner.resize(StagesOf(i).inner.size());
      nodes_[i].wanted = contents_.Wanted(i, StagesOf(i));
    }
    AddLabels();
    for (micro_batch_ = 0; micro_batch_ < micro_batches_; ++micro_batch_) {
      BeginMicroBatch();
      for (int i = 0; i < count; ++i) RunPass(i, Pass::kForward);
      for (NodeValues& values : nodes_) values.outputs.push_back(values.y);
      for (int i = count - 1; i >= 0; --i) RunPass(i, Pass::kBackward);
    }
    for (int i = 0; i < count; ++i) AddReport(i);
  }

 private:
  // The values of a node by slot, made when a stage first writes them.
  struct NodeValues {
    std::vector<ValueId> parameters, state, inner;
    ValueId y, dy;
    ValueId metrics;               // of a loss, over the micro-batches so far
    std::vector<ValueId> outputs;  // y of each micro-batch so far
    WantedStages wanted;
    // Over the micro-batches so far: of parameters' gradients, and of inner tensors that update state.
    std::vector<ValueId> gradient_sums, inner_sums;
  };

  const layers::LayerStages& StagesOf(int i) const { return lowering_.shardings[i].stages; }

  bool IsFrozen(int i) const { return lowering_.options.update.frozen_layers.contains(graph_.nodes[i].name); }

  void AddParameters(int i) {
    const std::vector<layers::ParameterSpec>& specs = graph_.nodes[i].parameters;
    for (int p = 0; p < static_cast<int>(specs.size()); ++p) {
      if (IsFrozen(i)) {
        const int index = static_cast<int>(lowering_.state.size());
        lowering_.state.push_back({.spec = specs[p], .node = i, .index = p, .is_frozen = true});
        nodes_[i].parameters.push_back(lowering_.AddValue(
            {.name = specs[p].name, .shape = specs[p].shape, .in_master_type = true, .role = StateTensor{index}}));
        continue;
      }
      lowering_.parameters.push_back({.spec = specs[p], .node = i, .index = p});
      nodes_[i].parameters.push_back(lowering_.AddValue({.name = specs[p].name,
                                                         .shape = specs[p].shape,
                                                         .in_master_type = true,
                                                         .role = TrainedParameter{LastParameter()}}));
    }
  }
  void AddState(int i) {
    for (const layers::ParameterSpec& spec : StagesOf(i).state) {
      const int index = static_cast<int>(lowering_.state.size()), of_node = static_cast<int>(nodes_[i].state.size());
      lowering_.state.push_back({.spec = spec, .node = i, .index = of_node});
      lowering_.state.back().spec.name = absl::StrCat(graph_.nodes[i].name, ".", spec.name);
      nodes_[i].state.push_back(lowering_.AddValue({.name = lowering_.state.back().spec.name,
                                                    .shape = spec.shape,
                                                    .in_master_type = true,
                                                    .role = StateTensor{index}}));
    }
  }
  int LastParameter() const { return static_cast<int>(lowering_.parameters.size()) - 1; }

  // "conv.y", of micro-batches behind the first "conv.y.1".
  std::string OfMicroBatch(const std::string& name) const {
    return micro_batch_ == 0 ? name : absl::StrCat(name, ".", micro_batch_);
  }

  // Values of a micro-batch are its own, but for those that outlive the step, and sums over micro-batches.
  void BeginMicroBatch() {
    for (NodeValues& values : nodes_) values.y = values.dy = ValueId{};
    for (std::vector<ValueId>& of_node : contributions_) of_node.clear();
    AddInputs();
  }

  // Adds the labels of all micro-batches at once: a gradient is divided by their number.
  void AddLabels() {
    Action count{.body = CountLabels{}, .provenance = {graph_.nodes.back().name, Pass::kForward}};
    for (micro_batch_ = 0; micro_batch_ < micro_batches_; ++micro_batch_) {
      labels_.push_back(lowering_.AddValue({.name = OfMicroBatch("labels"),
                                            .shape = {n_},
                                            .dtype = program::DType::kI32,
                                            .role = HostInputPart{program::HostInput::kLabels, micro_batch_ * n_}}));
      count.inputs.push_back({labels_.back(), {}});
    }
    if (!lowering_.train()) return;
    label_count_ = lowering_.AddValue({.name = "label_count", .shape = {1}, .dtype = program::DType::kF64});
    count.outputs = {label_count_};
    lowering_.actions.push_back(std::move(count));
  }

  // The images are node 0 (layers::LayerGraph).
  void AddInputs() {
    nodes_[0].y = lowering_.AddValue({.name = OfMicroBatch(graph_.nodes[0].name),
                                      .shape = graph_.OutputShape(LayerId{0}, n_),
                                      .role = HostInputPart{program::HostInput::kImages, micro_batch_ * n_}});
  }

  void RunPass(int i, Pass pass) {
    const std::vector<Stage>& stages = StagesOf(i).stages;
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
      if (stages[s].pass != pass || !nodes_[i].wanted.runs[s]) continue;
      if (!UpdatesState(stages[s]) || AddSums(i, stages[s])) Run(i, s, pass);
    }
  }

  // Whether a stage of training updates state alone: once in a step, by sums over all micro-batches.
  bool UpdatesState(const Stage& stage) const { return lowering_.train() && stage.writes.empty(); }

  // Adds what the stage reads of this micro-batch to that of those before; true where it is the last.
  bool AddSums(int i, const Stage& stage) {
    NodeValues& values = nodes_[i];
    values.inner_sums.resize(values.inner.size());
    for (Slot slot : stage.reads) {
      if (slot.kind != Slot::Kind::kInner) continue;
      ValueId& sum = values.inner_sums[slot.index];
      sum = micro_batch_ == 0 ? values.inner[slot.index]
                              : SumOf(sum, values.inner[slot.index], NextSum(values.inner[slot.index]), i, Pass::kBackward);
    }
    return micro_batch_ + 1 == micro_batches_;
  }
  // A value for the sum of values like `of`.
  Value NextSum(ValueId of) const {
    Value sum = lowering_.value(of);
    sum.name = absl::StrCat(sum.name, ".sum");
    return sum;
  }
  ValueId SumOf(ValueId before, ValueId now, Value sum, int i, Pass pass) {
    const ValueId total = lowering_.AddValue(std::move(sum));
    lowering_.actions.push_back({.body = SumMicroBatches{},
                                 .inputs = {{before, {}}, {now, {}}},
                                 .outputs = {total},
                                 .provenance = {graph_.nodes[i].name, pass}});
    return total;
  }

  void SumMetrics(int i) {
    NodeValues& values = nodes_[i];
    values.metrics = micro_batch_ == 0 ? values.y : SumOf(values.metrics, values.y, NextSum(values.y), i, Pass::kForward);
  }

  // Adds the gradients of parameters that were made last to those of the micro-batches before.
  void SumGradientsOfMicroBatches(int i, const Stage& stage, const std::vector<ValueId>& made) {
    NodeValues& values = nodes_[i];
    values.gradient_sums.resize(values.parameters.size());
    for (size_t k = 0; k < stage.writes.size(); ++k) {
      const Slot slot = stage.writes[k];
      if (slot.kind != Slot::Kind::kParameter || IsFrozen(i) || !made[k].valid()) continue;
      ValueId& sum = values.gradient_sums[slot.index];
      const bool is_last = micro_batch_ + 1 == micro_batches_;
      sum = micro_batch_ == 0
                ? made[k]
                : SumOf(sum, made[k], is_last ? ParameterGradientOf(i, slot.index) : NextSum(made[k]), i, Pass::kBackward);
    }
  }

  Value ParameterGradientOf(int i, int index) const {
    const int parameter = std::get<TrainedParameter>(lowering_.value(nodes_[i].parameters[index]).role).index;
    return {.name = absl::StrCat(lowering_.parameters[parameter].spec.name, ".gradient"),
            .shape = lowering_.parameters[parameter].spec.shape,
            .in_master_type = true,
            .role = ParameterGradient{parameter}};
  }

  void Run(int i, int s, Pass pass) {
    const Stage& stage = StagesOf(i).stages[s];
    Action action{.body = RunStage{i, s, micro_batch_}, .provenance = {graph_.nodes[i].name, pass}};
    for (Slot slot : stage.reads) {
      const bool is_summed = UpdatesState(stage) && slot.kind == Slot::Kind::kInner;
      action.inputs.push_back({is_summed ? nodes_[i].inner_sums[slot.index] : ValueRead(i, slot), {}});
    }
    for (Slot slot : stage.writes) {
      action.outputs.push_back(contents_.Makes(i, stage, slot, nodes_[i].wanted) ? ValueWritten(i, slot) : ValueId{});
    }
    const std::vector<ValueId> made = action.outputs;
    lowering_.actions.push_back(std::move(action));
    if (micro_batches_ > 1) SumGradientsOfMicroBatches(i, stage, made);
    if (pass == Pass::kForward && layers::IsLoss(graph_.nodes[i].layer)) SumMetrics(i);
  }

  ValueId ValueRead(int i, Slot slot) {
    NodeValues& values = nodes_[i];
    switch (slot.kind) {
      case Slot::Kind::kInput:
        return InputOf(i, slot.index);
      case Slot::Kind::kParameter:
        return values.parameters[slot.index];
      case Slot::Kind::kState:
        return values.state[slot.index];
      case Slot::Kind::kInner:
        return values.inner[slot.index];
      case Slot::Kind::kOutput:
        break;
    }
    if (!slot.gradient) return values.y;
    if (!values.dy.valid()) values.dy = GradientOf(i);
    return values.dy;
  }

  ValueId InputOf(int i, int index) const {
    const std::vector<LayerId>& inputs = graph_.nodes[i].inputs;
    const int count = static_cast<int>(inputs.size());
    if (index < count) return nodes_[inputs[index].value].y;
    return index == count ? labels_[micro_batch_] : label_count_;
  }

  ValueId ValueWritten(int i, Slot slot) {
    const LayerNode& node = graph_.nodes[i];
    const program::Shape& shape = ShapeOf(lowering_.shardings[i].whole, slot);
    switch (slot.kind) {
      case Slot::Kind::kInput: {
        const std::string number = node.inputs.size() > 1 ? absl::StrCat(slot.index) : "";
        const ValueId dx =
            lowering_.AddValue({.name = OfMicroBatch(absl::StrCat(node.name, ".dx", number)), .shape = shape});
        contributions_[node.inputs[slot.index].value].push_back(dx);
        return dx;
      }
      case Slot::Kind::kParameter: {
        if (!IsFrozen(i) && micro_batches_ == 1) return lowering_.AddValue(ParameterGradientOf(i, slot.index));
        return lowering_.AddValue({.name = OfMicroBatch(absl::StrCat(node.parameters[slot.index].name, ".gradient")),
                                   .shape = shape,
                                   .in_master_type = true});
      }
      case Slot::Kind::kState:
        return nodes_[i].state[slot.index];
      case Slot::Kind::kInner: {
        const layers::InnerSpec& inner = StagesOf(i).inner[slot.index];
        return nodes_[i].inner[slot.index] =
                   lowering_.AddValue({.name = OfMicroBatch(absl::StrCat(node.name, ".", inner.name)),
                                       .shape = shape,
                                       .dtype = inner.dtype,
                                       .in_master_type = inner.in_master_type});
      }
      case Slot::Kind::kOutput:
        break;
    }
    if (layers::IsLoss(node.layer)) return nodes_[i].y = Metrics(i, shape);
    return nodes_[i].y = lowering_.AddValue({.name = OfMicroBatch(absl::StrCat(node.name, ".y")), .shape = shape});
  }

  ValueId Metrics(int i, const program::Shape& shape) {
    return lowering_.AddValue({.name = OfMicroBatch(MetricsName(graph_, i)), .shape = shape, .dtype = program::DType::kF64});
  }

  // The metrics of a loss, of all micro-batches, and what layers make that are shown, once nothing else is left to do.
  void AddReport(int i) {
    const LayerNode& node = graph_.nodes[i];
    Action report{.body = Report{i}, .provenance = {node.name, Pass::kOutput}};
    if (lowering_.options.shown_layers.contains(node.name)) {
      for (ValueId y : nodes_[i].outputs) report.inputs.push_back({y, {}});
    } else if (layers::IsLoss(node.layer) && contents_.Runs(i)) {
      report.inputs = {{nodes_[i].metrics, {}}};
    }
    if (!report.inputs.empty()) lowering_.actions.push_back(std::move(report));
  }

  // The gradient of node i's output: the one contribution, or the sum of several.
  ValueId GradientOf(int i) {
    const std::vector<ValueId>& parts = contributions_[i];
    if (parts.size() == 1) return parts[0];
    Action sum{.body = SumGradients{i}, .provenance = {graph_.nodes[i].name, Pass::kBackward}};
    for (ValueId part : parts) sum.inputs.push_back({part, {}});
    const ValueId total = lowering_.AddValue(
        {.name = OfMicroBatch(absl::StrCat(graph_.nodes[i].name, ".dy")), .shape = lowering_.value(parts[0]).shape});
    sum.outputs = {total};
    lowering_.actions.push_back(std::move(sum));
    return total;
  }

  Lowering& lowering_;
  const layers::LayerGraph& graph_;
  const int micro_batches_;
  const int64_t n_;  // samples of a micro-batch
  const StepContents contents_;
  std::vector<NodeValues> nodes_;
  std::vector<std::vector<ValueId>> contributions_;  // by node, to the gradient of its output
  std::vector<ValueId> labels_;                      // by micro-batch
  ValueId label_count_;
  int micro_batch_ = 0;
};

}  // namespace

absl::Status ExpandStages(Lowering& lowering) {
  if (!lowering.actions.empty()) return absl::InternalError("ExpandStages: expected no actions");
  Expander(lowering).Run();
  for (const Value& value : lowering.values) {
    if (!value.placement.empty()) return absl::InternalError("ExpandStages: a value has a placement: " + value.name);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
