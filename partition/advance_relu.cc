#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layers/traits.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

// The traits of the layer whose backward action this is; none of any other action.
layers::LayerTraits BackwardOf(const Lowering& lowering, const Action& action) {
  const auto* backward = std::get_if<Backward>(&action.what);
  return backward != nullptr ? layers::TraitsOf(lowering.graph.nodes[backward->node].layer) : layers::LayerTraits{};
}

// Operands of the backward action of a layer of one input: x, y, dy.
constexpr size_t kY = 1, kDy = 2;

// The max pooling's backward action that alone makes what action `relu`, a ReLU's backward, reads, or −1: where both layers
// lie alike on the mesh and the pooling makes less of what it reads.
int PoolingBefore(const Lowering& lowering, int relu) {
  if (!BackwardOf(lowering, lowering.actions[relu]).is_relu || !lowering.actions[relu].outputs[0].valid()) return -1;
  const ValueId dy = lowering.actions[relu].inputs[kDy].value;
  int pooling = -1, readers = 0;
  for (int i = 0; i < static_cast<int>(lowering.actions.size()); ++i) {
    const Action& action = lowering.actions[i];
    if (!action.outputs.empty() && action.outputs[0] == dy && BackwardOf(lowering, action).is_max_pool) pooling = i;
    for (const ActionOperand& operand : action.inputs) readers += operand.value == dy ? 1 : 0;
  }
  if (pooling < 0 || readers != 1) return -1;
  const int relu_node = std::get<Backward>(lowering.actions[relu].what).node,
            pool_node = std::get<Backward>(lowering.actions[pooling].what).node;
  const NodeSharding &of_relu = lowering.shardings[relu_node], &of_pool = lowering.shardings[pool_node];
  if (of_relu.output != of_pool.output || of_relu.output_gradient != of_pool.output_gradient) return -1;
  const program::Shape& pooled = lowering.value(lowering.actions[pooling].inputs[kDy].value).shape;
  return program::ElementCount(pooled) < program::ElementCount(lowering.value(dy).shape) ? pooling : -1;
}

// What the forward action of a node makes.
ValueId OutputOf(const Lowering& lowering, int node) {
  const auto made = std::find_if(lowering.actions.begin(), lowering.actions.end(), [&](const Action& action) {
    const auto* forward = std::get_if<Forward>(&action.what);
    return forward != nullptr && forward->node == node;
  });
  return made->outputs[0];
}

}  // namespace

// From   pool: dp → da, relu: y, da → dx     to   relu: p, dp → dx', pool: dx' → da
// with p the pooled y; dx' takes dx's name, and what read dx reads da.
absl::Status AdvanceRelu(Lowering& lowering) {
  for (int relu = 0; relu < static_cast<int>(lowering.actions.size()); ++relu) {
    const int pooling = PoolingBefore(lowering, relu);
    if (pooling < 0) continue;
    Action &of_relu = lowering.actions[relu], &of_pool = lowering.actions[pooling];
    const ValueId dx = of_relu.outputs[0], da = of_relu.inputs[kDy].value,
                  pooled = OutputOf(lowering, std::get<Backward>(of_pool.what).node);
    of_relu.inputs[kY].value = pooled;
    of_relu.inputs[kDy].value = std::exchange(of_pool.inputs[kDy].value, dx);
    lowering.values[dx.value].shape = lowering.value(pooled).shape;
    for (size_t later = relu + 1; later < lowering.actions.size(); ++later) {
      for (ActionOperand& operand : lowering.actions[later].inputs) {
        if (operand.value == dx) operand.value = da;
      }
    }
    const auto begin = lowering.actions.begin();
    std::rotate(begin + pooling, begin + relu, begin + relu + 1);
    relu = pooling - 1;  // looks at it again: another pooling may stand before the one that it has passed
  }
  for (int relu = 0; relu < static_cast<int>(lowering.actions.size()); ++relu) {
    if (PoolingBefore(lowering, relu) >= 0) {
      return absl::InternalError(
          absl::StrCat("AdvanceRelu: ", lowering.actions[relu].from.layer, " still comes after a pooling"));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
