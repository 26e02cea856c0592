#include "layers/window.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "layers/common_shardings.h"
#include "program/formulas/rounding.h"

namespace colonnade::layers {
namespace {

constexpr int64_t kLargest = int64_t{1} << 20;  // of kernel, stride and pad: far above any image

program::Window WindowRoundedDown(const Pooling& p) {
  return {.size_h = p.kernel_h,
          .size_w = p.kernel_w,
          .stride_h = p.stride != 0 ? p.stride : p.kernel_h,
          .stride_w = p.stride != 0 ? p.stride : p.kernel_w,
          .pad_top = p.pad,
          .pad_left = p.pad,
          .pad_bottom = p.pad,
          .pad_right = p.pad};
}

// The padding behind `extent` pixels, which have `pad` before them, under the ceiling rule.
int64_t PadRoundedUp(int64_t extent, int64_t size, int64_t stride, int64_t pad) {
  const int64_t room = extent + 2 * pad - size;         // in the padded image: the last place where a window fits
  const int64_t last = program::RoundUp(room, stride);  // the first place for a window from there on
  return last < pad + extent ? pad + last - room : pad;
}

}  // namespace

absl::StatusOr<program::Shape> SlideOver(absl::Span<const program::Shape> inputs, const program::Window& window) {
  if (inputs.size() != 1 || inputs[0].size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input of shape [C,H,W], found %s", Listed(inputs)));
  }
  const program::Window& w = window;
  if (std::min({w.size_h, w.size_w, w.stride_h, w.stride_w}) < 1 ||
      std::min({w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}) < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "expected a kernel and a stride of at least 1 and a pad of at least 0, found kernel %dx%d, stride %d, pad %d",
        w.size_h, w.size_w, w.stride_h, w.pad_top));
  }
  for (int64_t size : {w.size_h, w.size_w, w.stride_h, w.stride_w, w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}) {
    if (size <= kLargest) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected a kernel, a stride and a pad of at most %d, found %d", kLargest, size));
  }
  const program::Shape& x = inputs[0];
  const int64_t pad_h = w.pad_top + w.pad_bottom, pad_w = w.pad_left + w.pad_right;
  const int64_t rows = x[1] + pad_h - w.size_h, columns = x[2] + pad_w - w.size_w;
  if (rows < 0 || columns < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected an image of at least %dx%d for a kernel of %dx%d with pad %d, found %s",
                        std::max<int64_t>(w.size_h - pad_h, 1), std::max<int64_t>(w.size_w - pad_w, 1), w.size_h, w.size_w,
                        w.pad_top, program::ToString(x)));
  }
  return program::Shape{x[0], rows / w.stride_h + 1, columns / w.stride_w + 1};
}

absl::StatusOr<program::Shape> PoolOver(absl::Span<const program::Shape> inputs, const Pooling& pooling) {
  const int64_t least = std::min(pooling.kernel_h, pooling.kernel_w);
  if (pooling.pad >= least) {
    return absl::InvalidArgumentError(absl::StrFormat("expected pad < kernel, found kernel %d, pad %d", least, pooling.pad));
  }
  const absl::StatusOr<program::Shape> rounded_down = SlideOver(inputs, WindowRoundedDown(pooling));
  if (!rounded_down.ok() || !pooling.ceil_mode) return rounded_down;
  return SlideOver(inputs, WindowOver(pooling, inputs[0]));
}

program::Window WindowOver(const Pooling& pooling, const program::Shape& x) {
  program::Window window = WindowRoundedDown(pooling);
  if (!pooling.ceil_mode) return window;
  window.pad_bottom = PadRoundedUp(x[x.size() - 2], window.size_h, window.stride_h, pooling.pad);
  window.pad_right = PadRoundedUp(x.back(), window.size_w, window.stride_w, pooling.pad);
  return window;
}

}  // namespace colonnade::layers
