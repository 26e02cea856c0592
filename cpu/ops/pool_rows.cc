#include "cpu/ops/pool_rows.h"

#include <algorithm>
#include <array>

#include "absl/types/span.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/row_loops.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

using program::Shape;
using program::Window;

namespace {

constexpr int64_t kOutputsAtOnce = 256;         // of a row
constexpr int64_t kWindowsOfLoop = kMostLanes;  // RowLoops::take_cells

struct Range {
  int64_t begin, end;
};
// The i in `within` for which i·stride + offset is in [0, extent).
Range Inside(Range within, int64_t stride, int64_t offset, int64_t extent) {
  const auto first_at_least = [stride](int64_t bound) { return bound <= 0 ? 0 : program::CeilDiv(bound, stride); };
  return {std::max(within.begin, first_at_least(-offset)), std::min(within.end, first_at_least(extent - offset))};
}

// The maxima of some windows of a row of y, and where in its window each is.
struct Maxima {
  alignas(64) std::array<float, kOutputsAtOnce> value = {};
  alignas(64) std::array<int32_t, kOutputsAtOnce> place = {};
};

// Cell `place` of some windows, that of window 0 being x[at].
void TakeOneByOne(const float* x, int64_t at, int64_t stride, int32_t place, Range windows, Maxima& maxima) {
  for (int64_t i = windows.begin; i < windows.end; ++i) {
    const float value = x[at + i * stride];
    if (!(value > maxima.value[i]) && maxima.place[i] != kNowhere) continue;
    maxima.value[i] = value;
    maxima.place[i] = place;
  }
}

COLONNADE_VECTOR_CLONES void Put(const Maxima& maxima, int64_t count, float* y, uint8_t* argmax) {
  std::copy_n(maxima.value.data(), count, y);
  for (int64_t i = 0; argmax != nullptr && i < count; ++i) argmax[i] = static_cast<uint8_t>(maxima.place[i]);
}

// One plane of an image.
struct Pooling {
  Window window;
  int64_t rows, columns;  // of x
  int64_t y_rows, y_columns;
  int64_t planes;
  const RowLoops* loops;

  Pooling(const Window& window, const Shape& x, const Shape& y)
      : window(window),
        rows(x[2]),
        columns(x[3]),
        y_rows(y[2]),
        y_columns(y[3]),
        planes(x[0] * x[1]),
        loops(FindRowLoops()) {}

  int64_t x_plane() const { return rows * columns; }
  int64_t y_plane() const { return y_rows * y_columns; }

  // Plane `plane` of the images x.
  void Forward(const float* x, int64_t plane, float* y, uint8_t* argmax) const {
    Maxima maxima;
    for (int64_t p = 0; p < y_rows; ++p) {
      for (int64_t first = 0; first < y_columns; first += kOutputsAtOnce) {
        const int64_t count = std::min(kOutputsAtOnce, y_columns - first), at = p * y_columns + first;
        TakeWindows(absl::MakeConstSpan(x, x_plane() * planes), plane * rows, p, {first, first + count}, maxima);
        Put(maxima, count, y + at, argmax == nullptr ? nullptr : argmax + at);
      }
    }
  }

  // The windows of row p of y; `above`: rows of x before the plane.
  void TakeWindows(absl::Span<const float> x, int64_t above, int64_t p, Range windows, Maxima& maxima) const {
    const int64_t count = windows.end - windows.begin;
    std::fill_n(maxima.place.data(), count, kNowhere);
    for (int64_t r = 0; r < window.size_h; ++r) {
      const int64_t row = p * window.stride_h + r - window.pad_top;
      if (row < 0 || row >= rows) continue;
      for (int64_t s = 0; s < window.size_w; ++s) {
        const int64_t column = windows.begin * window.stride_w + s - window.pad_left;
        const Range cells = Inside({0, count}, window.stride_w, column, columns);
        TakeCells(x, (above + row) * columns + column, static_cast<int32_t>(r * window.size_w + s), cells, maxima);
      }
    }
  }

  // Cell `place` of some windows, that of window 0 being x[at]. The loop reads cells of other windows, too, but none beyond
  // x.
  void TakeCells(absl::Span<const float> x, int64_t at, int32_t place, Range cells, Maxima& maxima) const {
    const int64_t stride = window.stride_w;
    for (int64_t first = 0; first < cells.end; first += kWindowsOfLoop) {
      const int64_t from = at + first * stride, to = from + kWindowsOfLoop * stride;
      if (stride <= 2 && from >= 0 && to <= static_cast<int64_t>(x.size())) {
        loops->take_cells(x.data() + from, stride, place, cells.begin - first, cells.end - first, &maxima.value[first],
                          &maxima.place[first]);
      } else {
        TakeOneByOne(x.data(), at, stride, place,
                     {std::max(cells.begin, first), std::min(cells.end, first + kWindowsOfLoop)}, maxima);
      }
    }
  }

  void Backward(const uint8_t* argmax, const float* dy, float* dx) const {
    std::array<int64_t, kNowhere + 1> offset = {};
    for (int64_t place = 0; place < window.size_h * window.size_w; ++place) {
      offset[place] = place / window.size_w * columns + place % window.size_w;
    }
    std::fill_n(dx, x_plane(), 0.0f);
    for (int64_t p = 0; p < y_rows; ++p) {
      const int64_t row = (p * window.stride_h - window.pad_top) * columns - window.pad_left;
      for (int64_t q = 0; q < y_columns; ++q) {
        const int64_t i = p * y_columns + q;
        if (argmax[i] != kNowhere) dx[row + q * window.stride_w + offset[argmax[i]]] += dy[i];
      }
    }
  }
};

}  // namespace

bool PoolsByRows(const Window& window, const View& x, const View& y) {
  const bool in_f32 = x.dtype == program::DType::kF32 && y.dtype == program::DType::kF32;
  return in_f32 && FindRowLoops() != nullptr && InRows(x) && InRows(y) && window.size_h * window.size_w <= kNowhere;
}

PreparedKernel PrepareByRows(const program::MaxPoolForward& op, const TaskContext& context) {
  const View& x_view = context.view(0);
  const bool notes = program::HasOptionalOperands(op, context.operands.size());
  return MakeKernel(
      [pooling = Pooling(op.window, x_view.shape, context.view(1).shape), notes, context](const RunArguments& run) {
        const Shape& shape = context.view(0).shape;
        const float* x = DataOf<const float>(run, context, 0);
        float* y = DataOf<float>(run, context, 1);
        uint8_t* argmax = notes ? DataOf<uint8_t>(run, context, 2) : nullptr;
        ParallelFor(context.threads, shape[0] * shape[1], [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t out = i * pooling.y_plane();
            pooling.Forward(x, i, y + out, argmax == nullptr ? nullptr : argmax + out);
          }
        });
        return absl::OkStatus();
      });
}

PreparedKernel PrepareByRows(const program::MaxPoolBackward& op, const TaskContext& context) {
  const Pooling pooling(op.window, context.view(2).shape, context.view(1).shape);
  return MakeKernel([pooling, context](const RunArguments& run) {
    const Shape& shape = context.view(2).shape;
    const uint8_t* argmax = DataOf<const uint8_t>(run, context, 0);
    const float* dy = DataOf<const float>(run, context, 1);
    float* dx = DataOf<float>(run, context, 2);
    ParallelFor(context.threads, shape[0] * shape[1], [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t out = i * pooling.y_plane();
        pooling.Backward(argmax + out, dy + out, dx + i * pooling.x_plane());
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace colonnade::cpu
