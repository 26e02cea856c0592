// The last pass but one: from actions, which are the same for every position, to the tasks of each device.
//
// Internal to partition/. One function for each kind of action, in emit_*.cc; what they share is an Emission.
#ifndef COLONNADE_PARTITION_LOWERING_EMISSION_H_
#define COLONNADE_PARTITION_LOWERING_EMISSION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "partition/lower.h"
#include "partition/lowering/layer_names.h"
#include "partition/lowering/lowering.h"
#include "partition/lowering/mesh_builder.h"
#include "partition/lowering/value_buffers.h"
#include "program/builder.h"

namespace colonnade::partition {

// The buffers of one bucket at each position; what the optimiser keeps is absent in evaluation, and where a position updates
// nothing.
struct BucketBuffers {
  ByPosition weights, gradients;
  std::vector<ByPosition> kept;  // in the order of program::StateOf
  ByPosition averages;
};

// What updates obey, at each position; all empty where they obey nothing.
struct GateBuffers {
  ByPosition norms, gates, trusts;  // norms and trusts: of bucket after bucket, member after member
  std::vector<int64_t> first_norm;  // by bucket
};

struct Emission {
  // Makes what is there before the step: buckets, state, what the host gives each step, gates.
  Emission(const Lowering& lowering, std::vector<int> representative_of);

  const UpdateOptions& update() const { return lowering.options.update; }

  const Lowering& lowering;
  const LayerNames layer_names;
  MeshBuilder builder;
  ValueBuffers values;
  std::vector<program::Input> inputs;
  std::vector<BucketBuffers> buckets;
  std::vector<ByPosition> state;
  std::vector<ByPosition> statistics;  // by StatisticsBucket: its buffer
  ByPosition scalars;
  ByPosition flags;  // of gradients that are finite; empty in evaluation
  GateBuffers gates;
};

// emit_inputs.cc
// Returns what the host gives each step, in the order of program::HostInput.
std::vector<program::Input> HostInputs(const Lowering& lowering);
// Adds the buffer that the host fills with the numbers of the step, such as its rate, and the task that loads it.
void AddScalars(Emission& e, int position);
// Emits the loads of an input, and for images the op that makes of bytes what the network reads.
void Emit(Emission& e, const Action& action, const LoadInput&);

// emit_stages.cc
// Emits the ops that a stage of a layer runs on each device's shard.
void Emit(Emission& e, const Action& action, const RunStage& run);
// Emits the copy of a value into the type in which kernels read it.
void Emit(Emission& e, const Action& action, const Round&);
// Emits the count of the labels that a device holds, by which losses divide their gradients.
void Emit(Emission& e, const Action& action, const CountLabels&);
// Emits the sum of the gradients that the readers of a value make.
void Emit(Emission& e, const Action& action, const SumGradients&);
// Emits the sum of what micro-batches make.
void Emit(Emission& e, const Action& action, const SumMicroBatches&);

// emit_reshard.cc
// Emits the slice, exchange or collective that moves a value from one placement to another, for each of its sections.
void Emit(Emission& e, const Action& action, const Reshard& reshard);

// emit_buckets.cc
// Adds the buffers of each bucket: weights, and for training gradients, averages and what the optimiser keeps.
void AddBuckets(Emission& e);
// Adds the buffers of statistics and of frozen parameters.
void AddState(Emission& e);
// Returns the number of equal parts of which the bucket's buffers are made: one for each device that updates, or as many as
// are reduced one by one.
int64_t PartsOf(const Lowering& lowering, int bucket);
// Returns whether `position` updates any of a bucket: under a master only the first of its group does.
bool Updates(const Lowering& lowering, int bucket, int position);
// Returns the parts of a bucket that `position` updates.
program::Region UpdatedParts(const Lowering& lowering, int bucket, int position);
// Emits the test whether a bucket's gradients are finite, which sets their flags.
void Emit(Emission& e, const Action& action, const CheckGradients& check);
// Emits the collective that sums one part of a bucket's gradients, for those who update it.
void Emit(Emission& e, const Action& action, const ReduceGradients& reduce);
// Emits the collective that brings updated weights to those who did not update them.
void Emit(Emission& e, const Action& action, const GatherParameters& gather);
// Emits the all-gather of a sharded gradient, for outputs that show it whole.
void Emit(Emission& e, const Action& action, const GatherGradients& gather);

// emit_statistics.cc
// Adds the buffers of the buckets of statistics, and places in them the values that are reduced together.
void PlaceStatistics(Emission& e);
// Emits an all-reduce, in place, of the `bytes` that each position holds, over its group.
void EmitAllReduce(Emission& e, const std::function<Group(int)>& group_of, const ByPosition& buffers, int64_t bytes,
                   const program::Provenance& from);
// Emits the all-reduce of a bucket of statistics.
void Emit(Emission& e, const Action& action, const ReduceStatistics& reduce);

// emit_updates.cc
// Adds the buffers of norms, gates and factors of trust where updates obey a gate.
void AddGates(Emission& e);
// Emits the squared norms of those gradients, and under LARS weights, that a position is the first to update.
void Emit(Emission& e, const Action& action, const MeasureGradients& measure);
// Emits the all-reduce that makes the norms those of whole tensors.
void Emit(Emission& e, const Action& action, const SumNorms&);
// Emits the op that makes the gate, the clipping and the factors of trust of the norms.
void Emit(Emission& e, const Action& action, const OpenGate&);
// Emits the optimiser's op on the parts of a bucket that each position updates.
void Emit(Emission& e, const Action& action, const UpdateParameters& what);
// Emits the op that brings the averages of a bucket's parameters up to date.
void Emit(Emission& e, const Action& action, const AverageParameters& what);

// emit_outputs.cc
// Declares the Program's parameters and state, each with the boxes that positions hold of it.
void AddParameters(Emission& e);
// Declares what training gives the host: flags of finite gradients, the gate, and on request the gradients.
void AddOutputs(Emission& e);
// Declares as an output the metrics of a loss, or the activation of another layer, and emits the tasks that store it.
void Emit(Emission& e, const Action& action, const Report& report);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_EMISSION_H_
