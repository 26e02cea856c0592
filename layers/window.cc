#include "layers/window.h"

#include "absl/strings/str_format.h"

namespace colonnade::layers {
namespace {

constexpr int64_t kLargest = int64_t{1} << 20;  // of kernel, stride and pad: far above any image

}  // namespace

absl::StatusOr<program::Shape> SlideOver(absl::Span<const program::Shape> inputs, const program::Window& window) {
  if (inputs.size() != 1 || inputs[0].size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input of shape [C,H,W], found %s",
                                                      inputs.empty() ? "none" : program::ToString(inputs[0])));
  }
  if (window.size_h < 1 || window.size_w < 1 || window.stride_h < 1 || window.stride_w < 1 || window.pad_h < 0 ||
      window.pad_w < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "expected a kernel and a stride of at least 1 and a pad of at least 0, found kernel %dx%d, stride %d, pad %d",
        window.size_h, window.size_w, window.stride_h, window.pad_h));
  }
  for (int64_t size : {window.size_h, window.size_w, window.stride_h, window.stride_w, window.pad_h, window.pad_w}) {
    if (size <= kLargest) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected a kernel, a stride and a pad of at most %d, found %d", kLargest, size));
  }
  const program::Shape& x = inputs[0];
  const int64_t rows = x[1] + 2 * window.pad_h - window.size_h, columns = x[2] + 2 * window.pad_w - window.size_w;
  if (rows < 0 || columns < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "expected an image of at least %dx%d for a kernel of %dx%d with pad %d, found %s", window.size_h - 2 * window.pad_h,
        window.size_w - 2 * window.pad_w, window.size_h, window.size_w, window.pad_h, program::ToString(x)));
  }
  return program::Shape{x[0], rows / window.stride_h + 1, columns / window.stride_w + 1};
}

}  // namespace colonnade::layers
