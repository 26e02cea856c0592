// What layers compute, and sums and copies between their stages.

#include <utility>

#include "partition/lowering/emission.h"

namespace colonnade::partition {
namespace {

using layers::Operand;
using program::Lane;

void EmitSum(Emission& e, const Action& action) {
  for (int p : e.builder.positions()) {
    program::Uses uses;
    for (const ActionOperand& operand : action.inputs) uses.push_back(layers::Read(e.values.OperandAt(operand.value, p)));
    e.values.Make(action.outputs[0], p);
    const Operand y = e.values.OperandAt(action.outputs[0], p);
    uses.push_back(layers::Write(y));
    const double sums = static_cast<double>(action.inputs.size() - 1) * static_cast<double>(program::ElementCount(y.shape));
    e.builder.AddCompute(p, {program::Sum{}, std::move(uses), layers::CountedFlops(sums)}, Lane::kCompute,
                         action.provenance);
  }
}

}  // namespace

void Emit(Emission& e, const Action& action, const RunStage& run) {
  const layers::Stage& stage = e.lowering.stage(run);
  if (!stage.emit) return e.values.ShareOutputs(action);
  e.values.MakeOutputs(action);
  for (int p : e.builder.positions()) {
    layers::StageShard shard;
    shard.scalars = {e.scalars[p], {program::StepScalar::kCount}};
    if (!e.gates.gates.empty()) shard.gate = {e.gates.gates[p], {program::Gate::kCount}};
    shard.batch = e.lowering.options.global_batch;
    shard.first_sample = run.micro_batch * (shard.batch / e.lowering.options.micro_batches);
    shard.epilogue = run.epilogue;
    const auto operand = [&](auto slot, ValueId value) {
      return layers::HasRows(slot) ? e.values.RowsAt(value, p, action.batch_part) : e.values.OperandAt(value, p);
    };
    for (size_t k = 0; k < stage.reads.size(); ++k) {
      if (action.inputs[k].value.valid()) shard.Put(stage.reads[k], operand(stage.reads[k], action.inputs[k].value));
    }
    for (size_t k = 0; k < stage.writes.size(); ++k) {
      if (action.outputs[k].valid()) shard.Put(stage.writes[k], operand(stage.writes[k], action.outputs[k]));
    }
    for (size_t k = 0; k < run.fused_reads.size(); ++k) {
      shard.Put(run.fused_reads[k], operand(run.fused_reads[k], action.inputs[stage.reads.size() + k].value));
    }
    for (size_t k = 0; k < run.fused_writes.size(); ++k) {
      shard.Put(run.fused_writes[k], operand(run.fused_writes[k], action.outputs[stage.writes.size() + k]));
    }
    for (layers::EmittedOp& op : stage.emit(shard))
      e.builder.AddCompute(p, std::move(op), Lane::kCompute, action.provenance);
  }
}

// Kernels read parameters, and sums over devices, in the type of activations.
void Emit(Emission& e, const Action& action, const Round&) {
  e.values.MakeOutputs(action);
  for (int p : e.builder.positions()) {
    const Operand master = e.values.RowsAt(action.inputs[0].value, p, action.batch_part),
                  rounded = e.values.RowsAt(action.outputs[0], p, action.batch_part);
    e.builder.AddCompute(p, {program::Copy{}, {layers::Read(master), layers::Write(rounded)}}, Lane::kCompute,
                         action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const CountLabels&) {
  e.values.MakeOutputs(action);
  for (int p : e.builder.positions()) {
    program::Uses uses;
    for (const ActionOperand& labels : action.inputs) uses.push_back(layers::Read(e.values.OperandAt(labels.value, p)));
    uses.push_back(layers::Write(e.values.OperandAt(action.outputs[0], p)));
    e.builder.AddCompute(p, {program::CountLabels{}, std::move(uses)}, Lane::kCompute, action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const SumGradients&) { EmitSum(e, action); }
void Emit(Emission& e, const Action& action, const SumMicroBatches&) { EmitSum(e, action); }

}  // namespace colonnade::partition
