// What the lowering passes work on: the actions of one training or evaluation step, the same for every position of the mesh.
//
// A Value is a global tensor with a placement; an Action reads values in the placements that it needs and makes others. The
// pass before the last turns each action into the tasks of every device.
#ifndef COLONNADE_PARTITION_LOWERING_ACTIONS_H_
#define COLONNADE_PARTITION_LOWERING_ACTIONS_H_

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

// What a value stands for, apart from the actions that make and read it.
struct Intermediate {};  // nothing else
struct HostInputPart {   // a part of an input, which the host loads
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
  std::optional<int> batch_part{};  // of the Lowering's batch_parts; absent: all of it
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_ACTIONS_H_
