#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

template <class LayerType>
bool IsBackwardOf(const Lowering& lowering, const Step& step) {
  const auto* backward = std::get_if<Backward>(&step.what);
  return backward != nullptr && std::holds_alternative<LayerType>(lowering.graph.nodes[backward->node].layer);
}

// Operands of the backward step of a layer of one input: x, y, dy.
constexpr size_t kY = 1, kDy = 2;

}  // namespace

absl::Status AdvanceRelu(Lowering& lowering) {
  absl::flat_hash_map<int, ValueId> output_of;  // of a node's forward step
  absl::flat_hash_map<ValueId, int> readers;
  for (const Step& step : lowering.steps) {
    const auto* forward = std::get_if<Forward>(&step.what);
    if (forward != nullptr && !step.outputs.empty()) output_of[forward->node] = step.outputs[0];
    for (const StepOperand& operand : step.inputs) {
      if (operand.value.valid()) ++readers[operand.value];
    }
  }
  for (size_t i = 0; i < lowering.steps.size(); ++i) {
    if (!IsBackwardOf<layers::Relu>(lowering, lowering.steps[i])) continue;
    const ValueId dy = lowering.steps[i].inputs[kDy].value;
    const auto made = std::find_if(lowering.steps.begin(), lowering.steps.begin() + static_cast<int64_t>(i),
                                   [&](const Step& step) { return !step.outputs.empty() && step.outputs[0] == dy; });
    const auto relu = lowering.steps.begin() + static_cast<int64_t>(i);
    if (made == relu || !IsBackwardOf<layers::MaxPool>(lowering, *made) || readers[dy] != 1) continue;
    const ValueId dx = relu->outputs[0], pooled = output_of.at(std::get<Backward>(made->what).node);
    if (!dx.valid()) continue;
    relu->inputs[kY].value = pooled;
    relu->inputs[kDy].value = std::exchange(made->inputs[kDy].value, dx);
    lowering.values[dx.value].shape = lowering.value(pooled).shape;
    for (auto step = std::next(relu); step != lowering.steps.end(); ++step) {
      for (StepOperand& operand : step->inputs) {
        if (operand.value == dx) operand.value = dy;
      }
    }
    std::rotate(made, relu, std::next(relu));
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
