#include "layers/avg_pool.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

program::Window WindowOf(const AvgPool& layer) {
  const int64_t stride = layer.stride != 0 ? layer.stride : layer.kernel;
  return {layer.kernel, layer.kernel, stride, stride, layer.pad, layer.pad};
}

int64_t Flops(const AvgPool& layer, const program::Shape& y) {
  return program::ElementCount(y) * layer.kernel * layer.kernel;
}

}  // namespace

const char* TypeName(const AvgPool&) { return "AvgPool"; }

absl::StatusOr<program::Shape> OutputSampleShape(const AvgPool& layer, absl::Span<const program::Shape> inputs) {
  if (layer.pad >= layer.kernel) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected pad < kernel, found kernel %d, pad %d", layer.kernel, layer.pad));
  }
  return SlideOver(inputs, WindowOf(layer));
}

std::vector<ParameterSpec> Parameters(const AvgPool&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const AvgPool&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const AvgPool&, const LayerShapes&) { return {}; }

std::vector<EmittedOp> EmitForward(const AvgPool& layer, const ForwardShard& shard) {
  return {{.op = program::AvgPoolForward{WindowOf(layer), layer.count_pad},
           .uses = {Read(shard.inputs[0]), Write(shard.output)},
           .work = MoveWork({shard.inputs[0]}, {shard.output}, Flops(layer, shard.output.shape))}};
}

std::vector<EmittedOp> EmitBackward(const AvgPool& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  return {{.op = program::AvgPoolBackward{WindowOf(layer), layer.count_pad},
           .uses = {Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({*shard.d_output}, {*shard.d_inputs[0]}, Flops(layer, shard.d_output->shape))}};
}

}  // namespace colonnade::layers
