#include "absl/strings/str_cat.h"
#include "layers/shard_operands.h"
#include "layers/traits.h"
#include "partition/passes.h"
#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::LayerNode;
using program::Pass;

// Which of a node's forward tensors its backward ops read, found by emitting them once on numbered operands.
struct BackwardReads {
  std::vector<bool> inputs;
  bool output = false;
};

class Expander {
 public:
  explicit Expander(Lowering& lowering) : lowering_(lowering), graph_(lowering.graph), n_(lowering.options.global_batch) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckInputs());
    ListParameters();
    Load();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) ForwardOf(static_cast<int>(i));
    if (lowering_.train()) {
      FindGradients();
      for (int i = static_cast<int>(graph_.nodes.size()) - 1; i >= 0; --i) BackwardOf(i);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckInputs() {
    int inputs = 0;
    for (const LayerNode& node : graph_.nodes) inputs += layers::TraitsOf(node.layer).is_input;
    if (inputs == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("network \"", graph_.name, "\": expected one input layer, found ", inputs));
  }

  bool IsLoss(int i) const { return layers::TraitsOf(graph_.nodes[i].layer).is_loss; }
  LayerId Id(int i) const { return LayerId{i}; }

  void ListParameters() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int node = static_cast<int>(i);
      const bool separate = BiasIsSeparate(lowering_, node);
      for (size_t p = 0; p < graph_.nodes[i].parameters.size(); ++p) {
        lowering_.parameters.push_back(
            {.spec = graph_.nodes[i].parameters[p], .node = node, .separate_bias = separate && p == 1});
      }
    }
  }

  void Load() {
    labels_ = lowering_.AddValue({.name = "labels", .shape = {n_}, .dtype = program::DType::kI32, .host_input = 1});
    output_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!layers::TraitsOf(graph_.nodes[i].layer).is_input) continue;
      output_[i] = lowering_.AddValue(
          {.name = graph_.nodes[i].name, .shape = graph_.OutputShape(Id(static_cast<int>(i)), n_), .host_input = 0});
    }
  }

  std::vector<ActionOperand> InputsOf(int i) const {
    std::vector<ActionOperand> inputs;
    for (LayerId input : graph_.nodes[i].inputs) inputs.push_back({output_[input.value], {}});
    if (IsLoss(i)) inputs.push_back({labels_, {}});
    return inputs;
  }

  void ForwardOf(int i) {
    const LayerNode& node = graph_.nodes[i];
    if (layers::TraitsOf(node.layer).is_input) return;
    Action action{.what = Forward{.node = i}, .inputs = InputsOf(i), .from = {node.name, Pass::kForward}};
    if (IsLoss(i)) {
      lowering_.actions.push_back(std::move(action));
      return;
    }
    const program::Shape shape = graph_.OutputShape(Id(i), n_);
    output_[i] = lowering_.AddValue({.name = absl::StrCat(node.name, ".y"), .shape = shape});
    if (!BiasIsSeparate(lowering_, i)) {
      action.outputs = {output_[i]};
      lowering_.actions.push_back(std::move(action));
      return;
    }
    const ValueId sum = lowering_.AddValue({.name = absl::StrCat(node.name, ".z"), .shape = shape});
    action.outputs = {sum};
    lowering_.actions.push_back(std::move(action));
    lowering_.actions.push_back(
        {.what = AddBias{i}, .inputs = {{sum, {}}}, .outputs = {output_[i]}, .from = {node.name, Pass::kForward}});
  }

  // A node's output has a gradient if a parameter stands before it.
  void FindGradients() {
    has_gradient_.resize(graph_.nodes.size());
    contributions_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      bool needed = !graph_.nodes[i].parameters.empty();
      for (LayerId input : graph_.nodes[i].inputs) needed = needed || has_gradient_[input.value];
      has_gradient_[i] = needed;
    }
  }

  BackwardReads ReadsOf(int i) const {
    const layers::Layer& layer = graph_.nodes[i].layer;
    layers::BackwardShard shard = layers::BackwardOperands(layer, graph_.Shapes(Id(i), n_));
    int32_t next = 0;
    auto number = [&next](layers::Operand& operand) { operand.buffer = program::BufferId{next++}; };
    for (layers::Operand& input : shard.inputs) number(input);
    number(shard.output);

    BackwardReads reads;
    reads.inputs.resize(shard.inputs.size());
    for (const layers::EmittedOp& op : layers::EmitBackward(layer, shard)) {
      for (const program::BufferUse& use : op.uses) {
        for (size_t k = 0; k < shard.inputs.size(); ++k) {
          if (use.buffer == shard.inputs[k].buffer) reads.inputs[k] = true;
        }
        if (use.buffer == shard.output.buffer) reads.output = true;
      }
    }
    return reads;
  }

  // The gradient of node i's output: the one contribution, or the sum of several.
  ActionOperand GradientOf(int i) {
    std::vector<ValueId>& parts = contributions_[i];
    if (parts.size() == 1) return {parts[0], {}};
    Action sum{.what = SumGradients{i}, .from = {graph_.nodes[i].name, Pass::kBackward}};
    for (ValueId part : parts) sum.inputs.push_back({part, {}});
    const ValueId total =
        lowering_.AddValue({.name = absl::StrCat(graph_.nodes[i].name, ".dy"), .shape = graph_.OutputShape(Id(i), n_)});
    sum.outputs = {total};
    lowering_.actions.push_back(std::move(sum));
    return {total, {}};
  }

  void BackwardOf(int i) {
    const LayerNode& node = graph_.nodes[i];
    if (!has_gradient_[i]) return;
    Action action{.what = Backward{i}, .inputs = InputsOf(i), .from = {node.name, Pass::kBackward}};
    const BackwardReads reads = ReadsOf(i);
    for (size_t k = 0; k < action.inputs.size(); ++k) {
      if (!reads.inputs[k]) action.inputs[k].value = ValueId{};
    }
    action.inputs.push_back({reads.output ? output_[i] : ValueId{}, {}});
    if (!IsLoss(i)) {
      const ActionOperand dy = GradientOf(i);
      action.inputs.push_back(dy);
      if (BiasIsSeparate(lowering_, i)) {
        lowering_.actions.push_back({.what = BiasGradient{i}, .inputs = {dy}, .from = {node.name, Pass::kBackward}});
      }
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int producer = node.inputs[k].value;
      ValueId dx;
      if (has_gradient_[producer]) {
        dx = lowering_.AddValue({.name = absl::StrCat(node.name, node.inputs.size() > 1 ? absl::StrCat(".dx", k) : ".dx"),
                                 .shape = graph_.OutputShape(Id(producer), n_)});
        contributions_[producer].push_back(dx);
      }
      action.outputs.push_back(dx);
    }
    lowering_.actions.push_back(std::move(action));
  }

  Lowering& lowering_;
  const layers::LayerGraph& graph_;
  const int64_t n_;
  ValueId labels_;
  std::vector<ValueId> output_;  // by node
  std::vector<bool> has_gradient_;
  std::vector<std::vector<ValueId>> contributions_;
};

}  // namespace

absl::Status ExpandPasses(Lowering& lowering) {
  if (!lowering.actions.empty()) return absl::InternalError("ExpandPasses: expected no actions");
  RETURN_IF_ERROR(Expander(lowering).Run());
  for (const Value& value : lowering.values) {
    if (!value.placement.empty()) return absl::InternalError("ExpandPasses: a value has a placement: " + value.name);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
