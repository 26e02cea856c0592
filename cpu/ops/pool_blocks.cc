#include "cpu/ops/pool_blocks.h"

#include "cpu/alignment.h"
#include "cpu/ops/block_loops.h"
#include "cpu/ops/row_loops.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

using program::RoundUp;
using program::Shape;
using program::Window;

namespace {

BlockPooling PoolingOf(const Window& window, const View& x, const View& y) {
  return {.rows = {window.size_h, window.stride_h, window.pad_top, x.shape[2], y.shape[2]},
          .columns = {window.size_w, window.stride_w, window.pad_left, x.shape[3], y.shape[3]}};
}

int64_t PlanesOf(const View& images) { return images.shape[0] * images.shape[1] / kChannelBlock; }

}  // namespace

bool PoolsByBlocks(const Window& window, const View& x, const View& y) {
  const auto is_such = [](const View& view) {
    return view.dtype == program::DType::kBF16 && view.kind == View::Kind::kBlocked;
  };
  return FindBlockLoops() != nullptr && is_such(x) && is_such(y) && window.size_h * window.size_w <= kNowhere;
}

PreparedKernel PrepareByBlocks(const program::MaxPoolForward& op, const TaskContext& context) {
  const BlockPooling pooling = PoolingOf(op.window, context.view(0), context.view(1));
  const bool notes = program::HasOptionalOperands(op, context.operands.size());
  return MakeKernel([pooling, notes, context](const RunArguments& run) {
    const auto* x = DataOf<const uint16_t>(run, context, 0);
    auto* y = DataOf<uint16_t>(run, context, 1);
    auto* argmax = notes ? DataOf<uint8_t>(run, context, 2) : nullptr;
    ParallelFor(context.threads, PlanesOf(context.view(0)), [&](int64_t begin, int64_t end) {
      const int64_t out = begin * pooling.y_plane();
      FindBlockLoops()->take_maxima(pooling, end - begin, x + begin * pooling.x_plane(), y + out,
                                    argmax == nullptr ? nullptr : argmax + out);
    });
    return absl::OkStatus();
  });
}

PreparedKernel PrepareByBlocks(const program::MaxPoolBackward& op, const TaskContext& context) {
  const BlockPooling pooling = PoolingOf(op.window, context.view(2), context.view(1));
  const int64_t floats = RoundUp(pooling.x_row(), kAlignmentFloats);  // of sums, of a thread
  const auto run_kernel = [pooling, context, floats](const RunArguments& run) {
    const auto* argmax = DataOf<const uint8_t>(run, context, 0);
    const auto* dy = DataOf<const uint16_t>(run, context, 1);
    auto* dx = DataOf<uint16_t>(run, context, 2);
    ParallelForWithScratch(
        context.threads, PlanesOf(context.view(1)), floats, run.workspace, [&](int64_t begin, int64_t end, float* sums) {
          const int64_t in = begin * pooling.y_plane();
          FindBlockLoops()->give_gradients(pooling, end - begin, argmax + in, dy + in, sums, dx + begin * pooling.x_plane());
        });
    return absl::OkStatus();
  };
  return MakeKernel(run_kernel, context.threads * floats * static_cast<int64_t>(sizeof(float)));
}

}  // namespace colonnade::cpu
