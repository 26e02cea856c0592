#include "layers/max_pool.h"

#include "absl/strings/str_format.h"
#include "layers/legality.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

constexpr int64_t kLargestKernel = 15;  // a place in the window is noted in one byte

Pooling PoolingOf(const MaxPool& layer) { return {layer.kernel, layer.kernel, layer.stride, layer.pad, layer.ceil_mode}; }

}  // namespace

const char* TypeName(const MaxPool&) { return "MaxPool"; }

absl::StatusOr<program::Shape> OutputSampleShape(const MaxPool& layer, absl::Span<const program::Shape> inputs) {
  if (layer.kernel > kLargestKernel) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected kernel ≤ %d, found kernel %d", kLargestKernel, layer.kernel));
  }
  return PoolOver(inputs, PoolingOf(layer));
}

std::vector<ParameterSpec> Parameters(const MaxPool&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const MaxPool&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

std::vector<SavedSpec> Saved(const MaxPool&, const LayerShapes& local) {
  return {{"argmax", program::DType::kU8, local.output}};
}

std::vector<EmittedOp> EmitForward(const MaxPool& layer, const ForwardShard& shard) {
  const program::Window window = WindowOver(PoolingOf(layer), shard.inputs[0].shape);
  EmittedOp op{.op = program::MaxPoolForward{window},
               .uses = {Read(shard.inputs[0]), Write(shard.output)},
               .work = MoveWork({shard.inputs[0]}, {shard.output},
                                program::ElementCount(shard.output.shape) * window.size_h * window.size_w)};
  if (!shard.saved.empty()) op.uses.push_back(Write(shard.saved[0]));
  return {std::move(op)};
}

std::vector<EmittedOp> EmitBackward(const MaxPool& layer, const BackwardShard& shard) {
  if (!shard.d_inputs[0]) return {};
  return {{.op = program::MaxPoolBackward{WindowOver(PoolingOf(layer), shard.d_inputs[0]->shape)},
           .uses = {Read(shard.saved[0]), Read(*shard.d_output), Write(*shard.d_inputs[0])},
           .work = MoveWork({*shard.d_output}, {*shard.d_inputs[0]}, program::ElementCount(shard.d_output->shape))}};
}

}  // namespace colonnade::layers
