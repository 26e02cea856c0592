// The last pass but one: from actions, which are the same for every position, to the tasks of each device.
//
// Internal to partition/. One function for each kind of action, in emit_*.cc; what they share is an Emission.
#ifndef COLONNADE_PARTITION_EMISSION_H_
#define COLONNADE_PARTITION_EMISSION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "partition/actions.h"
#include "partition/lower.h"
#include "partition/mesh_builder.h"
#include "partition/value_buffers.h"
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
std::vector<program::Input> HostInputs(const Lowering& lowering);
void AddScalars(Emission& e, int position);
void Emit(Emission& e, const Action& action, const LoadInput&);

// emit_stages.cc
void Emit(Emission& e, const Action& action, const RunStage& run);
void Emit(Emission& e, const Action& action, const Round&);
void Emit(Emission& e, const Action& action, const CountLabels&);
void Emit(Emission& e, const Action& action, const SumGradients&);
void Emit(Emission& e, const Action& action, const SumMicroBatches&);

// emit_reshard.cc
void Emit(Emission& e, const Action& action, const Reshard& reshard);

// emit_buckets.cc
void AddBuckets(Emission& e);
void AddState(Emission& e);
int64_t PartsOf(const Lowering& lowering, int bucket);
bool Updates(const Lowering& lowering, int bucket, int position);
// Returns the parts of a bucket that `position` updates.
program::Region UpdatedParts(const Lowering& lowering, int bucket, int position);
void Emit(Emission& e, const Action& action, const CheckGradients& check);
void Emit(Emission& e, const Action& action, const ReduceGradients& reduce);
void Emit(Emission& e, const Action& action, const GatherParameters& gather);
void Emit(Emission& e, const Action& action, const GatherGradients& gather);

// emit_statistics.cc
void PlaceStatistics(Emission& e);
// Emits an all-reduce, in place, of the `bytes` that each position holds, over its group.
void EmitAllReduce(Emission& e, const std::function<Group(int)>& group_of, const ByPosition& buffers, int64_t bytes,
                   const program::Provenance& from);
void Emit(Emission& e, const Action& action, const ReduceStatistics& reduce);

// emit_updates.cc
void AddGates(Emission& e);
void Emit(Emission& e, const Action& action, const MeasureGradients& measure);
void Emit(Emission& e, const Action& action, const SumNorms&);
void Emit(Emission& e, const Action& action, const OpenGate&);
void Emit(Emission& e, const Action& action, const UpdateParameters& what);
void Emit(Emission& e, const Action& action, const AverageParameters& what);

// emit_outputs.cc
void AddParameters(Emission& e);
void AddOutputs(Emission& e);
void Emit(Emission& e, const Action& action, const ReportMetrics&);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_EMISSION_H_
