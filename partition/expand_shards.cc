#include "absl/strings/str_cat.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

using layers::Placement;

// How labels lie where the logits lie as `logits` says.
TensorPlacement LabelPlacement(const TensorPlacement& logits) {
  TensorPlacement labels = logits;
  for (Placement& p : labels) {
    if (p != Placement::Split(0)) p = Placement::Replicated();
  }
  return labels;
}

// How a bias [K] lies that is added to y [n, K, …]: cut where the channels of y are.
TensorPlacement BiasPlacement(const TensorPlacement& y) {
  TensorPlacement bias = y;
  for (Placement& p : bias) p = p == Placement::Split(1) ? Placement::Split(0) : Placement::Replicated();
  return bias;
}

// How its gradient is made from dy: a partial sum where the batch is cut.
TensorPlacement BiasGradientPlacement(const TensorPlacement& dy) {
  TensorPlacement gradient = BiasPlacement(dy);
  for (size_t a = 0; a < dy.size(); ++a) {
    if (dy[a] == Placement::Split(0)) gradient[a] = Placement::Partial();
  }
  return gradient;
}

struct Placer {
  Lowering& lowering;

  void Make(ValueId id, const TensorPlacement& placement) { lowering.values[id.value].placement = placement; }

  // The node's inputs, and the labels of the loss, as the layer needs them.
  void NeedInputs(const NodeSharding& sharding, Step& step) {
    for (size_t k = 0; k < step.inputs.size() && k < sharding.inputs.size(); ++k) step.inputs[k].needed = sharding.inputs[k];
    if (IsLoss(step)) step.inputs[sharding.inputs.size()].needed = LabelPlacement(sharding.inputs[0]);
  }

  bool IsLoss(const Step& step) const {
    const auto* forward = std::get_if<Forward>(&step.what);
    const auto* backward = std::get_if<Backward>(&step.what);
    const int node = forward ? forward->node : backward ? backward->node : -1;
    return node >= 0 && std::holds_alternative<layers::SoftmaxCrossEntropy>(lowering.graph.nodes[node].layer);
  }

  void Place(Step& step, const Forward& forward) {
    const NodeSharding& sharding = lowering.shardings[forward.node];
    NeedInputs(sharding, step);
    if (!step.outputs.empty()) Make(step.outputs[0], sharding.output);
  }
  void Place(Step& step, const AddBias& add) {
    const NodeSharding& sharding = lowering.shardings[add.node];
    step.inputs[0].needed = sharding.output_gradient;
    Make(step.outputs[0], sharding.output_gradient);
  }
  void Place(Step& step, const Backward& backward) {
    const NodeSharding& sharding = lowering.shardings[backward.node];
    NeedInputs(sharding, step);
    const size_t y = sharding.inputs.size() + (IsLoss(step) ? 1 : 0);
    step.inputs[y].needed = sharding.output;
    if (step.inputs.size() > y + 1) step.inputs[y + 1].needed = sharding.output_gradient;
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k].valid()) Make(step.outputs[k], sharding.input_gradients[k]);
    }
  }
  void Place(Step& step, const BiasGradient& bias) { step.inputs[0].needed = lowering.shardings[bias.node].output_gradient; }
  void Place(Step& step, const SumGradients& sum) {
    const TensorPlacement& placement = lowering.shardings[sum.node].output_gradient;
    for (StepOperand& operand : step.inputs) operand.needed = placement;
    Make(step.outputs[0], placement);
  }
  // The steps of later passes do not exist yet.
  void Place(Step&, const LoadInput&) {}
  void Place(Step&, const Reshard&) {}
  void Place(Step&, const CheckGradients&) {}
  void Place(Step&, const ReduceGradients&) {}
  void Place(Step&, const UpdateParameters&) {}
  void Place(Step&, const GatherParameters&) {}
  void Place(Step&, const GatherGradients&) {}
};

void PlaceParameters(Lowering& lowering) {
  int index_in_node = 0;
  for (size_t i = 0; i < lowering.parameters.size(); ++i) {
    ShardedParameter& p = lowering.parameters[i];
    index_in_node = i > 0 && lowering.parameters[i - 1].node == p.node ? index_in_node + 1 : 0;
    const NodeSharding& sharding = lowering.shardings[p.node];
    if (p.separate_bias) {
      p.placement = BiasPlacement(sharding.output_gradient);
      p.gradient = BiasGradientPlacement(sharding.output_gradient);
    } else {
      p.placement = sharding.parameters[index_in_node];
      p.gradient = sharding.parameter_gradients[index_in_node];
    }
  }
}

}  // namespace

absl::Status ExpandShards(Lowering& lowering) {
  Placer placer{lowering};
  for (Step& step : lowering.steps) {
    std::visit([&](const auto& what) { placer.Place(step, what); }, step.what);
  }
  PlaceParameters(lowering);
  for (const Value& value : lowering.values) {
    if (value.placement.empty() && value.host_input < 0) {
      return absl::InternalError(absl::StrCat("ExpandShards: value ", value.name, " has no placement"));
    }
  }
  for (const Step& step : lowering.steps) {
    for (const StepOperand& operand : step.inputs) {
      if (operand.value.valid() && operand.needed.empty()) {
        return absl::InternalError(absl::StrCat("ExpandShards: an operand of ", step.from.layer, " has no placement"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
