// What is there before a step, then the tasks of every action.

#include <utility>
#include <variant>

#include "partition/lowering/emission.h"
#include "partition/lowering/passes.h"
#include "partition/lowering/representative_positions.h"

namespace colonnade::partition {
namespace {

// With fewer devices, vectors that grow cost little, and counting tasks and buffers beforehand takes a moment.
constexpr int kLeastDevicesToReserve = 64;

void AddScalarsAndFlags(Emission& e) {
  e.scalars = e.builder.NoBuffers();
  if (e.lowering.train()) e.flags = e.builder.NoBuffers();
  for (int p : e.builder.positions()) {
    AddScalars(e, p);
    if (!e.lowering.train()) continue;
    const auto parameters = static_cast<int64_t>(e.lowering.parameters.size());
    e.flags[p] = e.builder.AddBuffer(p, "finite", program::DType::kI32, {parameters});
  }
}

// Gives a value the memory of a parameter in one of the buffers of its bucket.
void PlaceInBucket(Emission& e, ValueId id, int parameter, ByPosition BucketBuffers::*buffers) {
  const ShardedParameter& sharded = e.lowering.parameters[parameter];
  const ByPosition& whole = e.buckets[sharded.bucket].*buffers;
  for (int p : e.builder.positions()) e.values.Place(id, p, e.builder.MemberOf(whole[p], sharded.member));
}

// Gives values that are state, parameters or gradients of these the memory that they have.
void PlaceWhatIsThere(Emission& e) {
  for (size_t v = 0; v < e.lowering.values.size(); ++v) {
    const Value& value = e.lowering.values[v];
    const ValueId id{static_cast<int32_t>(v)};
    if (const auto* state = value.As<StateTensor>()) e.values.Place(id, e.state[state->index]);
    if (const auto* parameter = value.As<TrainedParameter>()) {
      PlaceInBucket(e, id, parameter->index, &BucketBuffers::weights);
    }
    if (const auto* gradient = value.As<ParameterGradient>()) {
      PlaceInBucket(e, id, gradient->parameter, &BucketBuffers::gradients);
    }
  }
}

// Reserves room for all tasks and buffers. They are counted by emitting one device of each class: devices of a class have
// equally many.
void Reserve(Emission& e) {
  const program::RepresentativeProgram counted = EmitRepresentatives(e.lowering, nullptr);
  size_t tasks = 0, buffers = 0;
  for (const program::Task& task : counted.program.tasks) tasks += counted.stands_for[task.device].size();
  for (const program::Buffer& buffer : counted.program.buffers) buffers += counted.stands_for[buffer.device].size();
  e.builder.program().Reserve(tasks, buffers);
}

void EmitAll(Emission& e) {
  for (const Action& action : e.lowering.actions) {
    std::visit([&](const auto& what) { Emit(e, action, what); }, action.body);
  }
  AddParameters(e);
  AddOutputs(e);
  for (program::Input& input : e.inputs) e.builder.program().AddInput(std::move(input));
}

}  // namespace

Emission::Emission(const Lowering& lowered, std::vector<int> representative_of)
    : lowering(lowered),
      layer_names(lowered.graph),
      builder(lowered, std::move(representative_of)),
      values(lowered, builder),
      inputs(HostInputs(lowered)) {
  if (builder.emits_all() && builder.mesh().device_count() >= kLeastDevicesToReserve) Reserve(*this);
  AddBuckets(*this);
  AddState(*this);
  AddScalarsAndFlags(*this);
  AddGates(*this);
  PlaceWhatIsThere(*this);
  PlaceStatistics(*this);
}

program::Program EmitTasks(const Lowering& lowering) {
  Emission emission(lowering, {});
  EmitAll(emission);
  return std::move(emission.builder).Build();
}

program::RepresentativeProgram EmitRepresentatives(const Lowering& lowering, const GroupClassifier& classify_group) {
  Emission emission(lowering, RepresentativePositions(lowering, classify_group));
  EmitAll(emission);
  return std::move(emission.builder).BuildRepresentatives();
}

}  // namespace colonnade::partition
