// What the lowering passes work on: the actions of one training or evaluation step, the same for every position of the mesh.
//
// A Value is a global tensor with a placement; an Action reads values in the placements that it needs and makes others. The
// pass before the last turns each action into the tasks of every device.
#ifndef COLONNADE_PARTITION_LOWERING_ACTIONS_H_
#define COLONNADE_PARTITION_LOWERING_ACTIONS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "layers/graph.h"
#include "layers/stage.h"
#include "partition/lower.h"
#include "partition/plan.h"
#include "partition/reshard.h"
#include "partition/shardings.h"
#include "program/program.h"

namespace colonnade::partition {

using ValueId = program::StrongId<struct ValueTag>;

// What a value is outside of the actions that make and read it.
struct Intermediate {};  // nothing
struct HostInputPart {   // is loaded from there
  int input = 0;         // program::HostInput
  int64_t first_sample = 0;
};
struct TrainedParameter {
  int index = 0;  // in Lowering::parameters
};
struct ParameterGradient {
  int parameter = 0;  // index in Lowering::parameters
};
struct StateTensor {
  int index = 0;  // in Lowering::state
};
using ValueRole = std::variant<Intermediate, HostInputPart, TrainedParameter, ParameterGradient, StateTensor>;

struct Value {
  std::string name;
  program::Shape shape;                 // global
  TensorPlacement placement;            // empty before ExpandShards
  std::optional<program::DType> dtype;  // before ChoosePrecision only values with a type of their own have it, as labels do
  bool in_master_type = false;          // f32 or f64, also where activations are bf16
  ValueRole role;
  ValueId in_place_of;  // the value whose buffers this one takes over

  template <class Role>
  bool Is() const {
    return std::holds_alternative<Role>(role);
  }
  // Returns the role, or null where the value has another.
  template <class Role>
  const Role* As() const {
    return std::get_if<Role>(&role);
  }
};

struct ActionOperand {
  ValueId value;           // invalid: the action does not read it
  TensorPlacement needed;  // empty before ExpandShards
};

// The kinds of actions. The comment above each says what Action::inputs and Action::outputs hold: inputs → outputs.

// → the value.
struct LoadInput {};
// What the stage reads, then fused_reads → what it writes, then fused_writes; an output that nobody wants is invalid.
struct RunStage {
  int node = 0, stage = 0;
  int micro_batch = 0;
  std::optional<program::Activation> epilogue{};  // applied to the output; backward: undone
  std::vector<layers::Fused> fused_reads{}, fused_writes{};
};
// A value in the master type → the value in the type in which kernels read it.
struct Round {};
// Contributions → dy of the node's output.
struct SumGradients {
  int node = 0;
};
// The sum over the micro-batches before, and what this one makes → the sum of both, placed as they are made.
struct SumMicroBatches {};
// The labels of each micro-batch → how many of all of them count.
struct CountLabels {};
// A value → the value in another placement.
struct Reshard {
  ReshardEntry entry;
};
// What a node makes, of each micro-batch, or the metrics of a loss over all of them → the host.
struct Report {
  int node = 0;
};
// Statistics of devices, all those of a bucket → the same over the devices, in place.
struct ReduceStatistics {
  int bucket = 0;
};
// The kinds from here on work on one gradient bucket or on the norms of all; Action holds no values for them.
struct CheckGradients {
  int bucket = 0;
};
struct ReduceGradients {
  int bucket = 0;
  int part = 0;  // of the bucket's reduction_parts
};
// Measures the norms of a bucket's gradients and of its parameters.
struct MeasureGradients {
  int bucket = 0;
};
// Sums norms over devices.
struct SumNorms {};
// Makes the gate, which updates obey, from all norms.
struct OpenGate {};
struct UpdateParameters {
  int bucket = 0;
};
// Gathers parameters after an update that only some devices made.
struct GatherParameters {
  int bucket = 0;
};
// Updates the averages; each device does so for all that it has.
struct AverageParameters {
  int bucket = 0;
};
// Gathers a sharded gradient so that it can be shown whole.
struct GatherGradients {
  int bucket = 0;
};
using ActionBody = std::variant<LoadInput, RunStage, Round, SumGradients, SumMicroBatches, CountLabels, Reshard, Report,
                                ReduceStatistics, CheckGradients, ReduceGradients, MeasureGradients, SumNorms, OpenGate,
                                UpdateParameters, GatherParameters, AverageParameters, GatherGradients>;

struct Action {
  ActionBody body;
  std::vector<ActionOperand> inputs;
  std::vector<ValueId> outputs;
  program::Provenance provenance;
  std::optional<int> part{};  // of the Lowering's parts of the batch; absent: all of it
};

// Returns where a stage reads or writes `slot`; the number of slots if it does not.
inline size_t IndexOf(const std::vector<layers::Slot>& slots, layers::Slot slot) {
  return static_cast<size_t>(std::find(slots.begin(), slots.end(), slot) - slots.begin());
}
// Whether each device holds the same part of a tensor in both placements.
inline bool LieAlike(const Mesh& mesh, const TensorPlacement& a, const TensorPlacement& b) {
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (mesh.axes[axis].size > 1 && a[axis] != b[axis]) return false;
  }
  return a.size() == b.size();
}

// Whether parameters are gathered after an update that only some devices made.
inline bool GathersParameters(const Plan& plan) { return plan.reduction != Reduction::kAllReduce; }

struct ShardedParameter {
  layers::ParameterSpec spec;  // global
  int node = 0, index = 0;     // it is the node's parameter `index`
  TensorPlacement placement;
  TensorPlacement gradient;  // as the backward pass makes it
  int bucket = -1, member = -1;
};

// Returns the name of the metrics of a loss: "metrics" for the last one, which is the network's own.
inline std::string MetricsName(const layers::LayerGraph& graph, int node) {
  const bool is_last = node + 1 == static_cast<int>(graph.nodes.size());
  return is_last ? "metrics" : graph.nodes[node].name + ".metrics";
}

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

struct Lowering {
  const layers::LayerGraph& graph;
  const Plan& plan;
  const LowerOptions& options;

  std::vector<NodeSharding> shardings;  // by node
  int parts = 1;                        // of the batch, in which activations move (TransferParts)
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
    const size_t at = IndexOf(StageOf(action)->reads, slot);
    return at < StageOf(action)->reads.size() ? &action.inputs[at] : nullptr;
  }
  template <class AnAction>
  auto* FindOutput(AnAction& action, layers::Slot slot) const {
    const size_t at = IndexOf(StageOf(action)->writes, slot);
    return at < StageOf(action)->writes.size() ? &action.outputs[at] : nullptr;
  }
  ValueId AddValue(Value value) {
    values.push_back(std::move(value));
    return ValueId{static_cast<int32_t>(values.size()) - 1};
  }
  bool LieAlike(ValueId a, ValueId b) const {
    return partition::LieAlike(plan.mesh, value(a).placement, value(b).placement);
  }
  // Return the shape of what one device holds of a value, and its elements, or those of a bucket's parameters.
  program::Shape LocalShape(ValueId id) const { return RegionOn(plan.mesh, value(id).placement, value(id).shape, 0).size; }
  int64_t LocalElements(ValueId id) const { return program::ElementCount(LocalShape(id)); }
  int64_t LocalElements(const GradientBucket& bucket) const {
    int64_t elements = 0;
    for (int p : bucket.parameters) {
      elements += RegionOn(plan.mesh, parameters[p].placement, parameters[p].spec.shape, 0).elements();
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

// Whether an action hands on what it reads as it is, in another placement or type.
inline bool HandsOn(const Action& action) {
  return std::holds_alternative<Reshard>(action.body) || std::holds_alternative<Round>(action.body);
}
// Returns, by value, whether reports alone read it, and what hands it on to reports: no device waits for it. REQUIRES: each
// action stands behind those that make what it reads.
inline std::vector<bool> ReadByTheHostAlone(const Lowering& lowering) {
  std::vector<bool> by_the_host(lowering.values.size(), false), by_devices(lowering.values.size(), false);
  for (auto action = lowering.actions.rbegin(); action != lowering.actions.rend(); ++action) {
    const bool is_handed_to_reports = HandsOn(*action) && by_the_host[action->outputs[0].value];
    const bool is_for_the_host = std::holds_alternative<Report>(action->body) || is_handed_to_reports;
    for (const ActionOperand& operand : action->inputs) {
      if (!operand.value.valid()) continue;
      const int32_t value = operand.value.value;
      by_devices[value] = by_devices[value] || !is_for_the_host;
      by_the_host[value] = !by_devices[value];
    }
  }
  return by_the_host;
}

inline bool WritesNothing(const Action& action) {
  return std::none_of(action.outputs.begin(), action.outputs.end(), [](ValueId value) { return value.valid(); });
}
// Whether an action only updates state, which no other action of the step reads.
inline bool UpdatesStateAlone(const Lowering& lowering, const Action& action) {
  return lowering.train() && std::holds_alternative<RunStage>(action.body) && WritesNothing(action);
}

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_ACTIONS_H_
