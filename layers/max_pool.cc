#include "layers/max_pool.h"

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"
#include "layers/window.h"

namespace colonnade::layers {
namespace {

constexpr int64_t kLargestKernel = 15;  // a byte notes a place in the window, and kernels keep 255 for none

Pooling PoolingOf(const MaxPool& layer) { return {layer.kernel, layer.kernel, layer.stride, layer.pad, layer.ceil_mode}; }

}  // namespace

const char* TypeName(const MaxPool&) { return "MaxPool"; }

std::vector<Field> Fields(MaxPool& pool) {
  return {{"kernel", &pool.kernel, 1}, {"stride", &pool.stride}, {"pad", &pool.pad}, {"ceil_mode", &pool.ceil_mode}};
}

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

LayerStages Stages(const MaxPool& layer, const LayerShapes& whole, const StageOptions&) {
  const Slot argmax = Inner();
  Stage forward{.pass = program::Pass::kForward, .reads = {X()}, .writes = {Y(), argmax}};
  forward.emit = [layer, argmax](const StageShard& s) -> std::vector<EmittedOp> {
    const program::Window window = WindowOver(PoolingOf(layer), s[X()].shape);
    EmittedOp op{.op = program::MaxPoolForward{window},
                 .uses = {Read(s[X()]), Write(s[Y()])},
                 .flops = program::ElementCount(s[Y()].shape) * window.size_h * window.size_w};
    if (s.has(argmax)) op.uses.push_back(Write(s[argmax]));
    return {std::move(op)};
  };
  Stage backward{.pass = program::Pass::kBackward, .reads = {argmax, D(Y())}, .writes = {D(X())}, .meaning = Routing{}};
  backward.emit = [layer, argmax](const StageShard& s) -> std::vector<EmittedOp> {
    return {{.op = program::MaxPoolBackward{WindowOver(PoolingOf(layer), s[D(X())].shape)},
             .uses = {Read(s[argmax]), Read(s[D(Y())]), Write(s[D(X())])},
             .flops = program::ElementCount(s[D(Y())].shape)}};
  };
  return {.inner = {{.name = "argmax", .shape = whole.output, .dtype = program::DType::kU8}},
          .stages = {std::move(forward), std::move(backward)}};
}

}  // namespace colonnade::layers
