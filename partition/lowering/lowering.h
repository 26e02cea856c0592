// A step that is being lowered: where its tensors lie, its actions, and what is asked of both by several passes.
#ifndef COLONNADE_PARTITION_LOWERING_LOWERING_H_
#define COLONNADE_PARTITION_LOWERING_LOWERING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/lowering/actions.h"
#include "partition/mesh.h"
#include "partition/plan.h"
#include "partition/shardings.h"
#include "program/program.h"

namespace colonnade::partition {

struct ShardedParameter {
  layers::ParameterSpec spec;  // global
  int node = 0, index = 0;     // it is the node's parameter `index`
  TensorPlacement placement;
  TensorPlacement gradient;  // as the backward pass makes it
  int bucket = -1, member = -1;
};

// A tensor that outlives the step and is not trained: a statistic, or a parameter of a frozen layer.
struct ShardedState {
  layers::ParameterSpec spec;  // global
  int node = 0, index = 0;     // it is the node's state `index`, or its parameter `index`
  bool is_frozen = false;
  TensorPlacement placement;
};

// Parameters that are reduced, updated and gathered together.
struct GradientBucket {
  std::string name;
  std::vector<int> parameters;
  std::vector<int> axes;    // over which the gradients are partial
  int reduction_parts = 1;  // of equal size, which are reduced one by one
};

// Sums over devices, of one type, that only state is updated by: they are reduced together.
struct StatisticsBucket {
  std::string name;
  std::vector<int> axes;  // over which they are partial
  std::vector<ValueId> values;
};

// Returns where a stage reads or writes `slot`; the number of slots if it does not.
size_t IndexOf(const std::vector<layers::Slot>& slots, layers::Slot slot);

struct Lowering {
  const layers::LayerGraph& graph;
  const Plan& plan;
  const LowerOptions& options;

  std::vector<NodeSharding> shardings;  // by node
  int batch_parts = 1;                  // in which activations move
  std::vector<Value> values;
  std::vector<Action> actions;
  std::vector<ShardedParameter> parameters;
  std::vector<ShardedState> state;
  std::vector<GradientBucket> buckets;
  std::vector<StatisticsBucket> statistics;

  bool train() const { return options.mode == program::Mode::kTrain; }
  const Value& value(ValueId id) const { return values[id.value]; }
  const layers::Stage& stage(const RunStage& run) const { return shardings[run.node].stages.stages[run.stage]; }
  // Returns the stage that an action runs, or null.
  const layers::Stage* StageOf(const Action& action) const {
    const auto* run = std::get_if<RunStage>(&action.body);
    return run != nullptr ? &stage(*run) : nullptr;
  }
  // Return what an action reads or makes in a slot of its stage. REQUIRES: it runs a stage, which has the slot.
  template <class AnAction>
  auto& Input(AnAction& action, layers::Slot slot) const {
    return action.inputs[IndexOf(StageOf(action)->reads, slot)];
  }
  template <class AnAction>
  auto& Output(AnAction& action, layers::Slot slot) const {
    return action.outputs[IndexOf(StageOf(action)->writes, slot)];
  }
  // Return the same, or null where its stage does not have the slot. REQUIRES: it runs a stage.
  template <class AnAction>
  auto* FindInput(AnAction& action, layers::Slot slot) const {
    const size_t index = IndexOf(StageOf(action)->reads, slot);
    return index < StageOf(action)->reads.size() ? &action.inputs[index] : nullptr;
  }
  template <class AnAction>
  auto* FindOutput(AnAction& action, layers::Slot slot) const {
    const size_t index = IndexOf(StageOf(action)->writes, slot);
    return index < StageOf(action)->writes.size() ? &action.outputs[index] : nullptr;
  }
  ValueId AddValue(Value value) {
    values.push_back(std::move(value));
    return ValueId{static_cast<int32_t>(values.size()) - 1};
  }
  bool LieAlike(ValueId a, ValueId b) const {
    return partition::LieAlike(plan.mesh, value(a).placement, value(b).placement);
  }
  // Return the shape of what one device holds of a value, and its elements, or those of a bucket's parameters.
  program::Shape LocalShape(ValueId id) const {
    return partition::LocalShape(plan.mesh, value(id).placement, value(id).shape);
  }
  int64_t LocalElements(ValueId id) const { return program::ElementCount(LocalShape(id)); }
  int64_t LocalElements(const GradientBucket& bucket) const {
    int64_t elements = 0;
    for (int p : bucket.parameters) {
      elements += program::ElementCount(partition::LocalShape(plan.mesh, parameters[p].placement, parameters[p].spec.shape));
    }
    return elements;
  }
  // Returns the number of devices over which a bucket is reduced.
  int64_t ReductionSize(const GradientBucket& bucket) const {
    int64_t size = 1;
    for (int a : bucket.axes) size *= plan.mesh.axes[a].size;
    return size;
  }
};

// Whether parameters are gathered after an update that only some devices made.
bool GathersParameters(const Plan& plan);

// Returns the name of the metrics of a loss: "metrics" for the last one, which is the network's own.
std::string MetricsName(const layers::LayerGraph& graph, int node);

// Whether an action hands on what it reads as it is, in another placement or type.
bool ForwardsInput(const Action& action);
// Returns, by value, whether reports alone read it, and what hands it on to reports: no device waits for it. REQUIRES: each
// action stands behind those that make what it reads.
std::vector<bool> ReadByTheHostAlone(const Lowering& lowering);

bool WritesNothing(const Action& action);
// Whether an action only updates state, which no other action of the step reads.
bool UpdatesStateAlone(const Lowering& lowering, const Action& action);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_LOWERING_H_
