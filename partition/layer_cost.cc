#include "partition/layer_cost.h"

#include <optional>
#include <utility>

#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using layers::Operand;
using program::CollectiveKind;
using program::Shape;

constexpr double kBytesPerElement = 4;
// An update reads gradient, momentum and weight, and writes the last two.
constexpr int64_t kUpdateReads = 3, kUpdateWrites = 2;

Shape LocalOf(const Mesh& mesh, const TensorPlacement& placement, const Shape& shape) {
  return RegionOn(mesh, placement, shape, 0).size;
}

double Bytes(const Shape& shape) { return static_cast<double>(program::ElementCount(shape)) * kBytesPerElement; }

// The local shapes of a layer's tensors, as operands without buffers.
struct Shards {
  layers::Layer layer;
  layers::ForwardShard forward;
  layers::BackwardShard backward;
};

Shards ShardsOf(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                absl::Span<const layers::Strategy> strategies, const NodeSharding& sharding, int64_t n) {
  const layers::LayerNode& node = graph.node(id);
  Shards shards{
      .layer = HasSeparateBias(node, strategies) ? WithoutBias(node.layer) : node.layer, .forward = {}, .backward = {}};
  const std::vector<Shape> inputs = graph.InputShapes(id, n);
  const bool loss = std::holds_alternative<layers::SoftmaxCrossEntropy>(node.layer);
  layers::LayerShapes local{
      .inputs = {}, .parameters = {}, .output = {}, .global_inputs = inputs, .global_output = graph.OutputShape(id, n)};
  layers::ForwardShard& forward = shards.forward;
  for (size_t k = 0; k < inputs.size(); ++k) {
    local.inputs.push_back(LocalOf(mesh, sharding.inputs[k], inputs[k]));
    forward.inputs.push_back({{}, local.inputs.back()});
  }
  if (loss) forward.inputs.push_back({{}, {local.inputs[0][0]}});
  for (size_t p = 0; p < node.parameters.size() && p < sharding.parameters.size(); ++p) {
    local.parameters.push_back(LocalOf(mesh, sharding.parameters[p], node.parameters[p].shape));
    forward.parameters.push_back({{}, local.parameters.back()});
  }
  local.output = LocalOf(mesh, sharding.output, local.global_output);
  forward.output = {{}, loss ? Shape{program::kMetricCount} : local.output};
  for (const layers::SavedSpec& saved : layers::Saved(shards.layer, local)) forward.saved.push_back({{}, saved.shape});
  forward.scalars = {{}, {program::kStepScalarCount}};
  forward.global_output_shape = local.global_output;
  if (!loss) forward.output_region = RegionOn(mesh, sharding.output, local.global_output, 0);

  layers::BackwardShard& backward = shards.backward;
  backward.inputs = forward.inputs;
  backward.parameters = backward.d_parameters = forward.parameters;
  backward.output = loss ? Operand{{}, local.inputs[0]} : forward.output;
  backward.saved = forward.saved;
  backward.scalars = forward.scalars;
  if (!loss) backward.d_output = Operand{{}, LocalOf(mesh, sharding.output_gradient, local.global_output)};
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool needed = !std::holds_alternative<layers::Input>(graph.node(node.inputs[k]).layer);
    backward.d_inputs.push_back(needed ? std::optional<Operand>(Operand{{}, local.inputs[k]}) : std::nullopt);
  }
  backward.global_output_shape = forward.global_output_shape;
  backward.output_region = forward.output_region;
  return shards;
}

double SecondsOf(std::vector<layers::EmittedOp> ops, const CostFunctions& cost) {
  double seconds = 0;
  for (layers::EmittedOp& op : ops) {
    program::Task task;
    task.what = program::Compute{std::move(op.op)};
    task.uses = {op.uses.begin(), op.uses.end()};
    task.work = op.work;
    seconds += cost.compute(task);
  }
  return seconds;
}

}  // namespace

absl::StatusOr<LayerCost> CostOfLayer(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                                      absl::Span<const layers::Strategy> strategies, int64_t global_batch,
                                      const CostFunctions& cost) {
  ASSIGN_OR_RETURN(NodeSharding sharding, ShardNode(graph, id, mesh, strategies, global_batch));
  LayerCost layer{.sharding = std::move(sharding)};
  const Shards shards = ShardsOf(graph, id, mesh, strategies, layer.sharding, global_batch);
  layer.compute_sec = SecondsOf(layers::EmitForward(shards.layer, shards.forward), cost) +
                      SecondsOf(layers::EmitBackward(shards.layer, shards.backward), cost);
  const layers::LayerNode& node = graph.node(id);
  for (size_t p = 0; p < layer.sharding.parameters.size() && p < node.parameters.size(); ++p) {
    const double bytes = Bytes(LocalOf(mesh, layer.sharding.parameters[p], node.parameters[p].shape));
    program::Task update;
    update.what = program::Compute{program::SgdUpdate{}};
    update.work.bytes_read = kUpdateReads * static_cast<int64_t>(bytes);
    update.work.bytes_written = kUpdateWrites * static_cast<int64_t>(bytes);
    layer.compute_sec += cost.compute(update);
    int64_t members = 1;
    for (int a = 0; a < mesh.axis_count(); ++a) {
      const bool partial = layer.sharding.parameter_gradients[p][a].kind == layers::Placement::Kind::kPartial;
      if (partial) members *= mesh.axes[a].size;
    }
    if (members > 1) layer.reduction_sec += cost.transfer(CollectiveKind::kAllReduce, static_cast<int>(members), bytes);
  }
  return layer;
}

double CostOfReshard(const Mesh& mesh, const TensorPlacement& from, const TensorPlacement& to, const Shape& shape,
                     const CostFunctions& cost) {
  double seconds = 0;
  TensorPlacement at = from;
  for (const ReshardEntry& entry : PlanReshard(mesh, from, to)) {
    const double bytes = Bytes(LocalOf(mesh, at, shape));
    const int members = static_cast<int>(ReshardGroup(mesh, entry, 0).size());
    switch (entry.kind) {
      case ReshardKind::kSlice:
        break;
      case ReshardKind::kAllGather:
      case ReshardKind::kGatherRuns:
        seconds += cost.transfer(CollectiveKind::kAllGather, members, bytes);
        break;
      case ReshardKind::kAllToAll:
        seconds += cost.transfer(CollectiveKind::kAllToAll, members, bytes);
        break;
      case ReshardKind::kReduceScatter:
        seconds += cost.transfer(CollectiveKind::kReduceScatter, members, bytes);
        break;
      case ReshardKind::kAllReduce:
        seconds += cost.transfer(CollectiveKind::kAllReduce, members, bytes);
        break;
    }
    at[entry.axis] = entry.to;
  }
  return seconds;
}

}  // namespace colonnade::partition
