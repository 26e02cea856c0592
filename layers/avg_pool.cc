#include "layers/avg_pool.h"

#include <algorithm>

#include "layers/common_shardings.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

Pooling PoolingOf(const AvgPool& layer) {
  const int64_t kernel_w = layer.kernel_w != 0 ? layer.kernel_w : layer.kernel;
  return {layer.kernel, kernel_w, layer.stride, layer.pad, layer.ceil_mode};
}

// A window adds up no more elements than an image of `x` has.
int64_t Flops(const program::Window& window, const program::Shape& x, const program::Shape& y) {
  const int64_t added = std::min(window.size_h, x[2]) * std::min(window.size_w, x[3]);
  return CountedFlops(static_cast<double>(program::ElementCount(y)) * static_cast<double>(added));
}

}  // namespace

const char* TypeName(const AvgPool&) { return "AvgPool"; }

std::vector<Field> Fields(AvgPool& pool) {
  return {{"kernel", &pool.kernel, 1}, {"kernel_w", &pool.kernel_w},   {"stride", &pool.stride},
          {"pad", &pool.pad},          {"count_pad", &pool.count_pad}, {"ceil_mode", &pool.ceil_mode}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const AvgPool& layer, absl::Span<const program::Shape> inputs) {
  return PoolOver(inputs, PoolingOf(layer));
}

std::vector<ParameterSpec> Parameters(const AvgPool&, absl::Span<const program::Shape>) { return {}; }

absl::StatusOr<Sharding> Shard(const AvgPool&, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  return ShardChannelwise(local, strategy, axis_size);
}

LayerStages Stages(const AvgPool& layer, const LayerShapes&, const StageOptions&) {
  Stage forward{.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y()}};
  forward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
    const program::Window window = WindowOver(PoolingOf(layer), s[X()].shape);
    return {{.op = program::AvgPoolForward{window, layer.count_pad},
             .uses = {Read(s[X()]), Write(s[Y()])},
             .flops = Flops(window, s[X()].shape, s[Y()].shape)}};
  };
  Stage backward{.pass = program::Pass::kBackward, .reads = {D(Y())}, .writes = {D(X())}};
  backward.emit = [layer](const StageShard& s) -> std::vector<EmittedOp> {
    const program::Window window = WindowOver(PoolingOf(layer), s[D(X())].shape);
    return {{.op = program::AvgPoolBackward{window, layer.count_pad},
             .uses = {Read(s[D(Y())]), Write(s[D(X())])},
             .flops = Flops(window, s[D(X())].shape, s[D(Y())].shape)}};
  };
  return {.stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
