// How the logical elements of a buffer, or of a box of it, lie in device memory: strides from an offset, or folded blocks.
//
// Images [n, c, h, w] and filters [k, c, r, s] are channels-last (NHWC), which tensor cores want; all else is row-major.
// Images that are read only by convolutions of one kind may be folded (space_to_depth.h). Views hold no pointer: offsets
// count elements from the base of the root buffer. Plain values.
#ifndef COLONNADE_CUDA_VIEW_H_
#define COLONNADE_CUDA_VIEW_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "program/formulas/host_device.h"
#include "program/types.h"

namespace colonnade::cuda {

// Space-to-depth: blocks of pixels become pixels of more channels. Element (c, h, w) of an image of C channels is at
// [(h + pad_h) / block_h, (w + pad_w) / block_w, (dy·block_w + dx)·C + c] of [rows, columns, channels], where dy and dx are
// the remainders of the two divisions; all else is zero.
struct SpaceToDepth {
  int64_t block_h = 1, block_w = 1;
  int64_t pad_h = 0, pad_w = 0;  // pixels above and left
  int64_t rows = 0, columns = 0, channels = 0;
  bool operator==(const SpaceToDepth&) const = default;
  COLONNADE_HOST_DEVICE int64_t elements() const { return rows * columns * channels; }
  // Returns the offset of element (c, h, w) of an image of `image_channels`.
  COLONNADE_HOST_DEVICE int64_t At(int64_t image_channels, int64_t c, int64_t h, int64_t w) const {
    const int64_t row = (h + pad_h) / block_h, column = (w + pad_w) / block_w;
    const int64_t pixel = (h + pad_h - row * block_h) * block_w + w + pad_w - column * block_w;
    return (row * columns + column) * channels + pixel * image_channels + c;
  }
};

struct View {
  program::DType dtype = program::DType::kF32;
  program::Shape shape, strides;
  int64_t offset = 0;
  std::optional<SpaceToDepth> folded = std::nullopt;  // when set, only strides[0] is meaningful
};

View RowMajor(program::DType dtype, const program::Shape& shape);
// Returns the layout of a root: channels-last if it has four dimensions, else row-major.
View Natural(program::DType dtype, const program::Shape& shape);

// Returns the offset of element `index`.
int64_t OffsetOf(const View& view, absl::Span<const int64_t> index);

// Returns the box `region` of `view`. REQUIRES: whole images, if `view` is folded.
View Slice(const View& view, const program::Region& region);

// Whether the elements fill one range of memory in the order of Natural.
bool IsDense(const View& view);

// Returns a view of the same elements, in the same row-major order, under another shape; nothing if strides do not allow it.
std::optional<View> Reshape(const View& view, const program::Shape& shape);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_VIEW_H_
