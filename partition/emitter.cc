#include "partition/emitter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "partition/passes.h"
#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::LayerNode;
using layers::Operand;
using program::BufferId;
using program::Lane;
using program::Lifetime;
using program::Pass;
using program::Shape;

enum HostInput { kImages = 0, kLabels = 1, kScalars = 2 };

bool IsLoss(const LayerNode& node) { return std::holds_alternative<layers::SoftmaxCrossEntropy>(node.layer); }

}  // namespace

absl::StatusOr<program::Program> EmitTasks(const Lowering& lowering) { return Emitter(lowering).Run(); }

Emitter::Emitter(const Lowering& lowering)
    : lowering_(lowering),
      mesh_(lowering.plan.mesh),
      positions_(lowering.plan.mesh.device_count()),
      comm_lane_(lowering.plan.overlap ? Lane::kComm : Lane::kCompute),
      copy_lane_(lowering.plan.overlap ? Lane::kCopy : Lane::kCompute),
      builder_(lowering.graph.name, lowering.options.mode, lowering.options.global_batch, lowering.options.dtype,
               lowering.plan.mesh.axes),
      buffers_(lowering.values.size(), ByPosition(positions_)),
      saved_(lowering.graph.nodes.size(), std::vector<std::vector<Operand>>(positions_)) {
  const int64_t n = lowering.options.global_batch;
  inputs_ = {{.name = "images", .host_dtype = program::DType::kF32, .shape = lowering.graph.OutputShape(LayerId{0}, n)},
             {.name = "labels", .host_dtype = program::DType::kI32, .shape = {n}},
             {.name = "scalars", .host_dtype = program::DType::kF64, .shape = {program::kStepScalarCount}}};
}

absl::StatusOr<program::Program> Emitter::Run() && {
  RETURN_IF_ERROR(AddBuckets());
  RETURN_IF_ERROR(AddScalarsAndFlags());
  for (const Action& action : lowering_.actions) {
    absl::Status s = std::visit([&](const auto& what) { return Emit(action, what); }, action.what);
    if (!s.ok()) return s;
  }
  AddParameters();
  AddOutputs();
  for (program::Input& input : inputs_) builder_.AddInput(std::move(input));
  return std::move(builder_).Build();
}

absl::Status Emitter::AddScalarsAndFlags() {
  for (int p = 0; p < positions_; ++p) {
    const int device = lowering_.plan.device_at(p);
    const BufferId scalars = builder_.AddBuffer(device, "scalars", program::DType::kF64, {program::kStepScalarCount});
    scalars_.push_back(scalars);
    metrics_.push_back(builder_.AddBuffer(device, "metrics", program::DType::kF64, {program::kMetricCount}));
    inputs_[kScalars].pieces.push_back({scalars, program::Region::Whole(builder_.shape(scalars))});
    AddCompute(p, {program::Load{kScalars}, {builder_.Write(scalars)}, {}}, Lane::kCopy, {"scalars", Pass::kInput});
    if (!lowering_.train()) continue;
    flags_.push_back(
        builder_.AddBuffer(device, "finite", program::DType::kI32, {static_cast<int64_t>(lowering_.parameters.size())}));
  }
  return absl::OkStatus();
}

BufferId Emitter::Make(ValueId id, int position) {
  const Value& value = lowering_.value(id);
  BufferId& buffer = buffers_[id.value][position];
  if (value.in_place_of.valid()) {
    buffer = At(value.in_place_of, position);
  } else {
    buffer = builder_.AddBuffer(lowering_.plan.device_at(position), value.name, value.dtype,
                                RegionOn(mesh_, value.placement, value.shape, position).size);
  }
  return buffer;
}

Operand Emitter::OperandAt(ValueId id, int position) const {
  if (!id.valid()) return {};
  const BufferId buffer = At(id, position);
  return {buffer, builder_.shape(buffer)};
}

void Emitter::AddCompute(int position, layers::EmittedOp op, Lane lane, const program::Provenance& from,
                         program::DType dtype) {
  const int64_t size = program::SizeInBytes(dtype), counted = program::SizeInBytes(program::DType::kF32);
  op.work.bytes_read = op.work.bytes_read * size / counted;
  op.work.bytes_written = op.work.bytes_written * size / counted;
  builder_.AddCompute(lowering_.plan.device_at(position), lane, std::move(op.op), std::move(op.uses), op.work, from);
}

absl::Status Emitter::Emit(const Action& action, const LoadInput&) {
  const Value& value = lowering_.value(action.outputs[0]);
  for (int p = 0; p < positions_; ++p) {
    const BufferId buffer = Make(action.outputs[0], p);
    inputs_[value.host_input].pieces.push_back({buffer, RegionOn(mesh_, value.placement, value.shape, p)});
    const int64_t bytes = program::ElementCount(builder_.shape(buffer)) * program::SizeInBytes(program::DType::kF32);
    AddCompute(p, {program::Load{value.host_input}, {builder_.Write(buffer)}, {.bytes_read = bytes, .bytes_written = bytes}},
               Lane::kCopy, action.from);
  }
  return absl::OkStatus();
}

std::vector<Operand> Emitter::ParameterOperands(int node, int position, bool gradients) const {
  std::vector<Operand> operands;
  for (const ShardedParameter& p : lowering_.parameters) {
    if (p.node != node || p.separate_bias) continue;
    const BucketBuffers& bucket = buckets_[p.bucket];
    const BufferId buffer = gradients ? MemberBuffer(bucket.gradients[position], p.member) : ReadableParameter(p, position);
    operands.push_back({buffer, builder_.shape(buffer)});
  }
  return operands;
}

program::Region Emitter::OutputRegion(int node, int position) const {
  const Shape shape = lowering_.graph.OutputShape(LayerId{node}, lowering_.options.global_batch);
  return RegionOn(mesh_, lowering_.shardings[node].output, shape, position);
}

// Buffers for what a node's forward leaves for its backward, at every position.
absl::Status Emitter::MakeSaved(const Action& action, int node) {
  const LayerNode& layer = lowering_.graph.nodes[node];
  if (!lowering_.train() && !IsLoss(layer)) return absl::OkStatus();
  for (int p = 0; p < positions_; ++p) {
    layers::LayerShapes local;
    for (size_t k = 0; k < layer.inputs.size(); ++k) local.inputs.push_back(OperandAt(action.inputs[k].value, p).shape);
    for (const Operand& parameter : ParameterOperands(node, p, false)) local.parameters.push_back(parameter.shape);
    local.output = action.outputs.empty() ? Shape{program::kMetricCount} : OperandAt(action.outputs[0], p).shape;
    local.global_inputs = lowering_.graph.InputShapes(LayerId{node}, lowering_.options.global_batch);
    local.global_output = lowering_.graph.OutputShape(LayerId{node}, lowering_.options.global_batch);
    for (const layers::SavedSpec& saved : layers::Saved(layer.layer, local)) {
      const program::DType dtype = saved.dtype == program::DType::kF32 ? MasterType() : saved.dtype;
      saved_[node][p].push_back(
          {builder_.AddBuffer(lowering_.plan.device_at(p), absl::StrCat(layer.name, ".", saved.name), dtype, saved.shape),
           saved.shape});
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Emit(const Action& action, const Forward& forward) {
  const LayerNode& node = lowering_.graph.nodes[forward.node];
  const layers::Layer layer = BiasIsSeparate(lowering_, forward.node) ? WithoutBias(node.layer) : node.layer;
  for (int p = 0; p < positions_ && !action.outputs.empty(); ++p) Make(action.outputs[0], p);
  EmitRounding(forward.node, action.from);
  RETURN_IF_ERROR(MakeSaved(action, forward.node));
  for (int p = 0; p < positions_; ++p) {
    layers::ForwardShard shard;
    for (const ActionOperand& input : action.inputs) shard.inputs.push_back(OperandAt(input.value, p));
    shard.parameters = ParameterOperands(forward.node, p, false);
    shard.output =
        action.outputs.empty() ? Operand{metrics_[p], builder_.shape(metrics_[p])} : OperandAt(action.outputs[0], p);
    shard.saved = saved_[forward.node][p];
    shard.scalars = {scalars_[p], builder_.shape(scalars_[p])};
    shard.train = lowering_.train();
    shard.global_output_shape = lowering_.graph.OutputShape(LayerId{forward.node}, lowering_.options.global_batch);
    if (!IsLoss(node)) shard.output_region = OutputRegion(forward.node, p);
    for (layers::EmittedOp& op : layers::EmitForward(layer, shard)) {
      if (auto* conv = std::get_if<program::ConvForward>(&op.op)) conv->relu = forward.fused_relu;
      if (auto* fc = std::get_if<program::FullyConnectedForward>(&op.op)) fc->relu = forward.fused_relu;
      AddCompute(p, std::move(op), Lane::kCompute, action.from);
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Emit(const Action& action, const Backward& backward) {
  const LayerNode& node = lowering_.graph.nodes[backward.node];
  const layers::Layer layer = BiasIsSeparate(lowering_, backward.node) ? WithoutBias(node.layer) : node.layer;
  const size_t input_count = node.inputs.size() + (IsLoss(node) ? 1 : 0);
  for (int p = 0; p < positions_; ++p) {
    layers::BackwardShard shard;
    for (size_t k = 0; k < input_count; ++k) {
      Operand operand = OperandAt(action.inputs[k].value, p);
      if (!operand.buffer.valid() && k < node.inputs.size()) {
        const Shape global = lowering_.graph.InputShapes(LayerId{backward.node}, lowering_.options.global_batch)[k];
        operand.shape = RegionOn(mesh_, lowering_.shardings[backward.node].inputs[k], global, p).size;
      }
      shard.inputs.push_back(operand);
    }
    shard.parameters = ParameterOperands(backward.node, p, false);
    shard.output = OperandAt(action.inputs[input_count].value, p);
    if (!IsLoss(node)) {
      shard.output_region = OutputRegion(backward.node, p);
      if (!shard.output.buffer.valid()) shard.output.shape = shard.output_region.size;
      shard.d_output = OperandAt(action.inputs[input_count + 1].value, p);
    }
    shard.saved = saved_[backward.node][p];
    shard.scalars = {scalars_[p], builder_.shape(scalars_[p])};
    for (ValueId dx : action.outputs) {
      if (dx.valid()) Make(dx, p);
      shard.d_inputs.push_back(dx.valid() ? std::optional<Operand>(OperandAt(dx, p)) : std::nullopt);
    }
    shard.d_parameters = ParameterOperands(backward.node, p, true);
    shard.global_output_shape = lowering_.graph.OutputShape(LayerId{backward.node}, lowering_.options.global_batch);
    for (layers::EmittedOp& op : layers::EmitBackward(layer, shard)) {
      AddCompute(p, std::move(op), Lane::kCompute, action.from);
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Emit(const Action& action, const AddBias& add) {
  for (const ShardedParameter& parameter : lowering_.parameters) {
    if (parameter.node != add.node || !parameter.separate_bias) continue;
    for (int p = 0; p < positions_; ++p) {
      const BufferId x = At(action.inputs[0].value, p), y = Make(action.outputs[0], p);
      const BufferId bias = ReadableParameter(parameter, p);
      const int64_t elements = program::ElementCount(builder_.shape(y));
      AddCompute(p,
                 {program::BiasForward{},
                  {builder_.Read(x), builder_.Read(bias), builder_.Write(y)},
                  {.flops = elements, .bytes_read = 4 * elements, .bytes_written = 4 * elements}},
                 Lane::kCompute, action.from);
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Emit(const Action& action, const BiasGradient& bias) {
  for (const ShardedParameter& parameter : lowering_.parameters) {
    if (parameter.node != bias.node || !parameter.separate_bias) continue;
    for (int p = 0; p < positions_; ++p) {
      const BufferId dy = At(action.inputs[0].value, p);
      const BufferId db = MemberBuffer(buckets_[parameter.bucket].gradients[p], parameter.member);
      const int64_t elements = program::ElementCount(builder_.shape(dy));
      AddCompute(p,
                 {program::BiasBackward{},
                  {builder_.Read(dy), builder_.Write(db)},
                  {.flops = elements, .bytes_read = 4 * elements, .bytes_written = 4 * builder_.shape(db)[0]}},
                 Lane::kCompute, action.from);
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Emit(const Action& action, const SumGradients&) {
  for (int p = 0; p < positions_; ++p) {
    program::Uses uses;
    for (const ActionOperand& operand : action.inputs) uses.push_back(builder_.Read(At(operand.value, p)));
    const BufferId y = Make(action.outputs[0], p);
    uses.push_back(builder_.Write(y));
    const int64_t elements = program::ElementCount(builder_.shape(y)), count = static_cast<int64_t>(action.inputs.size());
    AddCompute(p,
               {program::Sum{},
                std::move(uses),
                {.flops = (count - 1) * elements, .bytes_read = 4 * count * elements, .bytes_written = 4 * elements}},
               Lane::kCompute, action.from);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
