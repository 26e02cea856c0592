#include "layers/avg_pool.h"

#include "layers/legality.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

Pooling PoolingOf(const AvgPool& layer) {
  const int64_t kernel_w = layer.kernel_w != 0 ? layer.kernel_w : layer.kernel;
  return {layer.kernel, kernel_w, layer.stride, layer.pad, layer.ceil_mode};
}

int64_t Flops(const program::Window& window, const program::Shape& y) {
  return program::ElementCount(y) * window.size_h * window.size_w;
}

}  // namespace

const char* TypeName(const AvgPool&) { return "AvgPool"; }

absl::StatusOr<program::Shape> OutputSampleShape(const AvgPool& layer, absl::Span<const program::Shape> inputs) {
  return PoolOver(inputs, PoolingOf(layer));
}

std::vector<ParameterSpec> Parameters(const AvgPool&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const AvgPool&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const AvgPool&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const AvgPool& layer, const ForwardShard& shard) {
  const program::Window window = WindowOver(PoolingOf(layer), shard.inputs[0].shape);
  return {{.op = program::AvgPoolForward{window, layer.count_pad},
           .uses = {Read(shard.inputs[0]), Write(shard.output)},
           .work = MoveWork({shard.inputs[0]}, {shard.output}, Flops(window, shard.output.shape))}};
}

std::vector<EmittedOp> EmitBackward(const AvgPool& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  const program::Window window = WindowOver(PoolingOf(layer), shard.d_inputs[0]->shape);
  return {{.op = program::AvgPoolBackward{window, layer.count_pad},
           .uses = {Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({*shard.d_output}, {*shard.d_inputs[0]}, Flops(window, shard.d_output->shape))}};
}

}  // namespace colonnade::layers
