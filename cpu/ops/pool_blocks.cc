#include "cpu/ops/pool_blocks.h"

#include <algorithm>

#include "cpu/load/arena.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"
#include "cpu/ops/row_loops.h"
#include "cpu/threads/parallel.h"
#include "program/bfloat16.h"

namespace colonnade::cpu {

using program::BFloat16;
using program::Shape;
using program::Window;

namespace {

constexpr int64_t kLanesOfBlock = kChannelBlock;

struct Extent {
  int64_t begin, end;
};

// Along one axis: how windows lie over cells.
struct WindowAxis {
  int64_t size, stride, pad, cells, windows;

  Extent CellsOf(int64_t window) const {
    const int64_t first = window * stride - pad;
    return {std::max<int64_t>(first, 0), std::min(first + size, cells)};
  }
  Extent WindowsOver(int64_t cell) const {
    const int64_t last = (cell + pad) / stride, before = cell + pad - size;
    return {before < 0 ? 0 : before / stride + 1, std::min(last + 1, windows)};
  }
  int64_t PlaceOf(int64_t cell, int64_t window) const { return cell + pad - window * stride; }
};

struct BlockPooling {
  WindowAxis rows, columns;
  int64_t planes;  // blocks of all images

  BlockPooling(const Window& window, const Shape& x, const Shape& y)
      : rows{window.size_h, window.stride_h, window.pad_top, x[2], y[2]},
        columns{window.size_w, window.stride_w, window.pad_left, x[3], y[3]},
        planes(x[0] * x[1] / kLanesOfBlock) {}

  int64_t x_row() const { return columns.cells * kLanesOfBlock; }
  int64_t x_plane() const { return rows.cells * x_row(); }
  int64_t y_plane() const { return rows.windows * columns.windows * kLanesOfBlock; }
  int32_t PlaceOf(int64_t h, int64_t p, int64_t w, int64_t q) const {
    return static_cast<int32_t>(rows.PlaceOf(h, p) * columns.size + columns.PlaceOf(w, q));
  }
};

// The maxima of a block's channels in one window, and where they are.
struct BlockMaxima {
  alignas(64) float value[kLanesOfBlock] = {};
  alignas(64) int32_t place[kLanesOfBlock];

  COLONNADE_INLINE BlockMaxima() { std::fill_n(place, kLanesOfBlock, kNowhere); }

  COLONNADE_INLINE void Take(const BFloat16* cell, int32_t at) {
#pragma omp simd
    for (int64_t l = 0; l < kLanesOfBlock; ++l) {
      const float v = cell[l];
      const bool takes = (v > value[l]) | (place[l] == kNowhere);
      value[l] = takes ? v : value[l];
      place[l] = takes ? at : place[l];
    }
  }
};

// Some planes of x; argmax may be null.
COLONNADE_VECTOR_CLONES void TakeMaxima(const BlockPooling& of, const BFloat16* x, int64_t planes, BFloat16* y,
                                        uint8_t* argmax) {
  for (int64_t plane = 0; plane < planes; ++plane, x += of.x_plane()) {
    for (int64_t p = 0; p < of.rows.windows; ++p) {
      const Extent rows = of.rows.CellsOf(p);
      for (int64_t q = 0; q < of.columns.windows; ++q, y += kLanesOfBlock) {
        const Extent columns = of.columns.CellsOf(q);
        BlockMaxima maxima;
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            maxima.Take(x + h * of.x_row() + w * kLanesOfBlock, of.PlaceOf(h, p, w, q));
          }
        }
#pragma omp simd
        for (int64_t l = 0; l < kLanesOfBlock; ++l) Put(maxima.value[l], y[l]);
        if (argmax == nullptr) continue;
#pragma omp simd
        for (int64_t l = 0; l < kLanesOfBlock; ++l) argmax[l] = static_cast<uint8_t>(maxima.place[l]);
        argmax += kLanesOfBlock;
      }
    }
  }
}

// Some planes of dx: each cell gets the gradients of the windows whose maximum it is. A row of them is summed in float, in
// `sums`, and rounded once.
COLONNADE_VECTOR_CLONES void GiveGradients(const BlockPooling& of, const uint8_t* argmax, const BFloat16* dy, int64_t planes,
                                           float* sums, BFloat16* dx) {
  for (int64_t plane = 0; plane < planes; ++plane, argmax += of.y_plane(), dy += of.y_plane()) {
    for (int64_t h = 0; h < of.rows.cells; ++h, dx += of.x_row()) {
      std::fill_n(sums, of.x_row(), 0.0F);
      const Extent over = of.rows.WindowsOver(h);
      for (int64_t p = over.begin; p < over.end; ++p) {
        for (int64_t q = 0; q < of.columns.windows; ++q) {
          const int64_t from = (p * of.columns.windows + q) * kLanesOfBlock;
          const Extent columns = of.columns.CellsOf(q);
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            const int32_t place = of.PlaceOf(h, p, w, q);
            float* to = sums + w * kLanesOfBlock;
#pragma omp simd
            for (int64_t l = 0; l < kLanesOfBlock; ++l) {
              const float gradient = dy[from + l];
              to[l] += argmax[from + l] == place ? gradient : 0.0F;
            }
          }
        }
      }
#pragma omp simd
      for (int64_t i = 0; i < of.x_row(); ++i) Put(sums[i], dx[i]);
    }
  }
}

}  // namespace

bool PoolsByBlocks(const Window& window, const View& x, const View& y) {
  const auto is_such = [](const View& view) {
    return view.dtype == program::DType::kBF16 && view.kind == View::Kind::kBlocked;
  };
  return is_such(x) && is_such(y) && window.size_h * window.size_w <= kNowhere;
}

PreparedKernel PrepareByBlocks(const program::MaxPoolForward& op, const TaskContext& context) {
  const BlockPooling pooling(op.window, context.view(0).shape, context.view(1).shape);
  return KernelOf([pooling, context](const RunArguments& run) {
    const auto* x = DataOf<const BFloat16>(run, context, 0);
    auto* y = DataOf<BFloat16>(run, context, 1);
    auto* argmax = context.operands.size() == 3 ? DataOf<uint8_t>(run, context, 2) : nullptr;
    ParallelFor(context.threads, pooling.planes, [&](int64_t begin, int64_t end) {
      const int64_t out = begin * pooling.y_plane();
      TakeMaxima(pooling, x + begin * pooling.x_plane(), end - begin, y + out, argmax == nullptr ? nullptr : argmax + out);
    });
    return absl::OkStatus();
  });
}

PreparedKernel PrepareByBlocks(const program::MaxPoolBackward& op, const TaskContext& context) {
  const BlockPooling pooling(op.window, context.view(2).shape, context.view(1).shape);
  const int64_t floats = RoundUp(pooling.x_row(), kAlignment);  // of sums, of a thread
  const auto run = [pooling, context, floats](const RunArguments& of) {
    const auto* argmax = DataOf<const uint8_t>(of, context, 0);
    const auto* dy = DataOf<const BFloat16>(of, context, 1);
    auto* dx = DataOf<BFloat16>(of, context, 2);
    ParallelForWithScratch(context.threads, pooling.planes, floats, of.workspace,
                           [&](int64_t begin, int64_t end, float* sums) {
                             const int64_t in = begin * pooling.y_plane();
                             GiveGradients(pooling, argmax + in, dy + in, end - begin, sums, dx + begin * pooling.x_plane());
                           });
    return absl::OkStatus();
  };
  return KernelOf(run, context.threads * floats * static_cast<int64_t>(sizeof(float)));
}

}  // namespace colonnade::cpu
