#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

using layers::D;
using layers::X;
using layers::Y;

const RunStage& RunOf(const Action& action) { return std::get<RunStage>(action.body); }
int NodeOf(const Action& action) { return RunOf(action).node; }

bool Masks(const Lowering& lowering, const Action& action) {
  const layers::Stage* stage = lowering.StageOf(action);
  return stage != nullptr && stage->Means<layers::Masking>() && lowering.Output(action, D(X())).valid();
}

bool Routes(const Lowering& lowering, const Action& action) {
  const layers::Stage* stage = lowering.StageOf(action);
  return stage != nullptr && stage->Means<layers::Routing>();
}

// What routing actions make; they make the same after a mask has passed them.
using Routed = absl::flat_hash_set<ValueId>;

Routed RoutedIn(const Lowering& lowering) {
  Routed routed;
  for (const Action& action : lowering.actions) {
    if (Routes(lowering, action)) routed.insert(lowering.Output(action, D(X())));
  }
  return routed;
}

// The routing action that alone makes what action `mask` reads, or −1: where both layers lie alike on the mesh and the
// routing makes more than it reads.
int RoutingBefore(const Lowering& lowering, const Routed& routed, int mask) {
  if (!Masks(lowering, lowering.actions[mask])) return -1;
  const ValueId dy = lowering.Input(lowering.actions[mask], D(Y())).value;
  if (!routed.contains(dy)) return -1;
  int routing = -1, readers = 0;
  for (int i = 0; i < static_cast<int>(lowering.actions.size()); ++i) {
    const Action& action = lowering.actions[i];
    if (Routes(lowering, action) && lowering.Output(action, D(X())) == dy) routing = i;
    for (const ActionOperand& operand : action.inputs) readers += operand.value == dy ? 1 : 0;
  }
  if (routing < 0 || readers != 1) return -1;
  const NodeSharding &of_mask = lowering.shardings[NodeOf(lowering.actions[mask])],
                     &of_routing = lowering.shardings[NodeOf(lowering.actions[routing])];
  if (of_mask.output != of_routing.output || of_mask.output_gradient != of_routing.output_gradient) return -1;
  const ValueId read = lowering.Input(lowering.actions[routing], D(Y())).value;
  return program::ElementCount(lowering.value(read).shape) < program::ElementCount(lowering.value(dy).shape) ? routing : -1;
}

// Returns the forward output of the node that `run` is of, in the same micro-batch.
ValueId OutputOf(const Lowering& lowering, const RunStage& run) {
  for (const Action& action : lowering.actions) {
    const layers::Stage* stage = lowering.StageOf(action);
    if (stage == nullptr || NodeOf(action) != run.node || RunOf(action).micro_batch != run.micro_batch) continue;
    if (const ValueId* y = lowering.FindOutput(action, Y()); y != nullptr) return *y;
  }
  return {};
}

}  // namespace

// From   routing: dp → da, mask: y, da → dx     to   mask: p, dp → dx', routing: dx' → da
// with p the routing layer's y; dx' takes dx's name, and what read dx reads da.
absl::Status AdvanceMasks(Lowering& lowering) {
  const Routed routed = RoutedIn(lowering);
  for (int mask = 0; mask < static_cast<int>(lowering.actions.size()); ++mask) {
    const int routing = RoutingBefore(lowering, routed, mask);
    if (routing < 0) continue;
    Action &of_mask = lowering.actions[mask], &of_routing = lowering.actions[routing];
    const ValueId dx = lowering.Output(of_mask, D(X())), da = lowering.Input(of_mask, D(Y())).value,
                  pooled = OutputOf(lowering, RunOf(of_routing));
    lowering.Input(of_mask, Y()).value = pooled;
    lowering.Input(of_mask, D(Y())).value = std::exchange(lowering.Input(of_routing, D(Y())).value, dx);
    lowering.values[dx.value].shape = lowering.value(pooled).shape;
    for (size_t later = mask + 1; later < lowering.actions.size(); ++later) {
      for (ActionOperand& operand : lowering.actions[later].inputs) {
        if (operand.value == dx) operand.value = da;
      }
    }
    const auto begin = lowering.actions.begin();
    std::rotate(begin + routing, begin + mask, begin + mask + 1);
    mask = routing - 1;  // looks at it again: another pooling may stand before the one that it has passed
  }
  for (int mask = 0; mask < static_cast<int>(lowering.actions.size()); ++mask) {
    if (RoutingBefore(lowering, routed, mask) >= 0) {
      return absl::InternalError(
          absl::StrCat("AdvanceMasks: ", lowering.actions[mask].provenance.layer, " still comes after what it could mask"));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
