#include "partition/emitter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "layers/shard_operands.h"
#include "layers/traits.h"
#include "partition/passes.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::LayerNode;
using layers::Operand;
using program::BufferId;
using program::Lane;
using program::Pass;
using program::Shape;

enum HostInput { kImages = 0, kLabels = 1, kScalars = 2 };

// `operand` in place of `shard`'s, whose shape stays where there is no buffer.
void Put(const Operand& operand, Operand& in_shard) {
  if (operand.buffer.valid()) in_shard = operand;
}

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
  AddBuckets();
  AddScalarsAndFlags();
  for (const Action& action : lowering_.actions) {
    std::visit([&](const auto& what) { Emit(action, what); }, action.what);
  }
  AddParameters();
  AddOutputs();
  for (program::Input& input : inputs_) builder_.AddInput(std::move(input));
  return std::move(builder_).Build();
}

void Emitter::AddScalarsAndFlags() {
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
}

BufferId Emitter::Make(ValueId id, int position) {
  const Value& value = lowering_.value(id);
  BufferId& buffer = buffers_[id.value][position];
  if (value.in_place_of.valid()) {
    buffer = At(value.in_place_of, position);
  } else {
    buffer = builder_.AddBuffer(lowering_.plan.device_at(position), value.name, *value.dtype,
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
  builder_.AddCompute(lowering_.plan.device_at(position), lane, std::move(op.op), std::move(op.uses),
                      layers::InType(op.work, dtype), from);
}

void Emitter::Emit(const Action& action, const LoadInput&) {
  const Value& value = lowering_.value(action.outputs[0]);
  for (int p = 0; p < positions_; ++p) {
    Make(action.outputs[0], p);
    const Operand y = OperandAt(action.outputs[0], p);
    inputs_[value.host_input].pieces.push_back({y.buffer, RegionOn(mesh_, value.placement, value.shape, p)});
    AddCompute(p, {program::Load{value.host_input}, {layers::Write(y)}, layers::MoveWork({y}, {y})}, Lane::kCopy,
               action.from);
  }
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

layers::Layer Emitter::LayerOf(int node) const {
  const layers::Layer& layer = lowering_.graph.nodes[node].layer;
  return BiasIsSeparate(lowering_, node) ? layers::WithoutBias(layer) : layer;
}

layers::LayerShapes Emitter::ShapesOf(int node) const {
  return LocalShapes(mesh_, lowering_.shardings[node],
                     lowering_.graph.Shapes(LayerId{node}, lowering_.options.global_batch));
}

// Buffers for what a node's forward leaves for its backward, at every position.
void Emitter::MakeSaved(int node) {
  const LayerNode& layer = lowering_.graph.nodes[node];
  if (!lowering_.train() && !TraitsOf(layer.layer).is_loss) return;
  for (int p = 0; p < positions_; ++p) {
    for (const layers::SavedSpec& saved : layers::Saved(layer.layer, ShapesOf(node))) {
      saved_[node][p].push_back({builder_.AddBuffer(lowering_.plan.device_at(p), absl::StrCat(layer.name, ".", saved.name),
                                                    saved.dtype.value_or(MasterType()), saved.shape),
                                 saved.shape});
    }
  }
}

void Emitter::Emit(const Action& action, const Forward& forward) {
  const layers::Layer layer = LayerOf(forward.node);
  const bool loss = layers::TraitsOf(layer).is_loss;
  for (int p = 0; p < positions_ && !loss; ++p) Make(action.outputs[0], p);
  EmitRounding(forward.node, action.from);
  MakeSaved(forward.node);
  for (int p = 0; p < positions_; ++p) {
    layers::ForwardShard shard = layers::ForwardOperands(layer, ShapesOf(forward.node));
    for (size_t k = 0; k < action.inputs.size(); ++k) Put(OperandAt(action.inputs[k].value, p), shard.inputs[k]);
    shard.parameters = ParameterOperands(forward.node, p, false);
    shard.output.buffer = loss ? metrics_[p] : At(action.outputs[0], p);
    shard.saved = saved_[forward.node][p];
    shard.scalars.buffer = scalars_[p];
    shard.train = lowering_.train();
    if (!loss) shard.output_region = OutputRegion(forward.node, p);
    for (layers::EmittedOp& op : layers::EmitForward(layer, shard)) {
      if (auto* conv = std::get_if<program::ConvForward>(&op.op)) conv->relu = forward.fused_relu;
      if (auto* fc = std::get_if<program::FullyConnectedForward>(&op.op)) fc->relu = forward.fused_relu;
      AddCompute(p, std::move(op), Lane::kCompute, action.from);
    }
  }
}

// The shapes of a ReLU's operands are those of the values: AdvanceRelu gives it pooled ones.
void Emitter::Emit(const Action& action, const Backward& backward) {
  const layers::Layer layer = LayerOf(backward.node);
  const bool loss = layers::TraitsOf(layer).is_loss;
  for (int p = 0; p < positions_; ++p) {
    layers::BackwardShard shard = layers::BackwardOperands(layer, ShapesOf(backward.node));
    const size_t inputs = shard.inputs.size();
    for (size_t k = 0; k < inputs; ++k) Put(OperandAt(action.inputs[k].value, p), shard.inputs[k]);
    Put(OperandAt(action.inputs[inputs].value, p), shard.output);
    if (!loss) {
      shard.output_region = OutputRegion(backward.node, p);
      Put(OperandAt(action.inputs[inputs + 1].value, p), *shard.d_output);
    }
    shard.parameters = ParameterOperands(backward.node, p, false);
    shard.d_parameters = ParameterOperands(backward.node, p, true);
    shard.saved = saved_[backward.node][p];
    shard.scalars.buffer = scalars_[p];
    for (size_t k = 0; k < action.outputs.size(); ++k) {
      const ValueId dx = action.outputs[k];
      if (dx.valid()) Make(dx, p);
      shard.d_inputs[k] = dx.valid() ? std::optional<Operand>(OperandAt(dx, p)) : std::nullopt;
    }
    for (layers::EmittedOp& op : layers::EmitBackward(layer, shard)) {
      AddCompute(p, std::move(op), Lane::kCompute, action.from);
    }
  }
}

void Emitter::Emit(const Action& action, const AddBias& add) {
  for (const ShardedParameter& parameter : lowering_.parameters) {
    if (parameter.node != add.node || !parameter.separate_bias) continue;
    for (int p = 0; p < positions_; ++p) {
      Make(action.outputs[0], p);
      const Operand x = OperandAt(action.inputs[0].value, p), y = OperandAt(action.outputs[0], p);
      AddCompute(p,
                 {program::BiasForward{},
                  {layers::Read(x), builder_.Read(ReadableParameter(parameter, p)), layers::Write(y)},
                  layers::MoveWork({x}, {y}, program::ElementCount(y.shape))},
                 Lane::kCompute, action.from);
    }
  }
}

void Emitter::Emit(const Action& action, const BiasGradient& bias) {
  for (const ShardedParameter& parameter : lowering_.parameters) {
    if (parameter.node != bias.node || !parameter.separate_bias) continue;
    for (int p = 0; p < positions_; ++p) {
      const Operand dy = OperandAt(action.inputs[0].value, p);
      const BufferId gradient = MemberBuffer(buckets_[parameter.bucket].gradients[p], parameter.member);
      const Operand db{gradient, builder_.shape(gradient)};
      AddCompute(p,
                 {program::BiasBackward{},
                  {layers::Read(dy), layers::Write(db)},
                  layers::MoveWork({dy}, {db}, program::ElementCount(dy.shape))},
                 Lane::kCompute, action.from);
    }
  }
}

void Emitter::Emit(const Action& action, const SumGradients&) {
  for (int p = 0; p < positions_; ++p) {
    std::vector<Operand> contributions;
    program::Uses uses;
    for (const ActionOperand& operand : action.inputs) {
      contributions.push_back(OperandAt(operand.value, p));
      uses.push_back(layers::Read(contributions.back()));
    }
    Make(action.outputs[0], p);
    const Operand y = OperandAt(action.outputs[0], p);
    uses.push_back(layers::Write(y));
    const int64_t sums = static_cast<int64_t>(contributions.size()) - 1;
    AddCompute(
        p, {program::Sum{}, std::move(uses), layers::MoveWork(contributions, {y}, sums * program::ElementCount(y.shape))},
        Lane::kCompute, action.from);
  }
}

}  // namespace colonnade::partition
