// How the logical elements of a buffer, or of a box of it, lie in device memory: strides from an offset, nothing else.
//
// Images [n, c, h, w] are channels-last (NHWC), which tensor cores want; filters [k, c, r, s] likewise; all else is
// row-major. Images of bf16 whose channels are no whole vectors are loaded with zeros up to the next multiple of eight,
// which is what tensor cores read; nothing else is padded. Views hold no pointer: offsets count elements from the base of
// the root buffer. Plain values.
#ifndef COLONNADE_CUDA_VIEW_H_
#define COLONNADE_CUDA_VIEW_H_

#include <cstdint>
#include <optional>

#include "program/types.h"

namespace colonnade::cuda {

struct View {
  program::DType dtype = program::DType::kF32;
  program::Shape shape, strides;
  int64_t offset = 0;
  bool is_padded = false;  // a padded image: the rest of each pixel is zeros
};

View RowMajor(program::DType dtype, const program::Shape& shape);
// The layout of a root: channels-last if it has four dimensions, else row-major.
View Natural(program::DType dtype, const program::Shape& shape);

// Channels-last, each pixel taking the room of `channels` > shape[1] channels.
View PaddedImage(program::DType dtype, const program::Shape& shape, int64_t channels);
// That number, if `view` is all of such an image, or whole pixels in one range of memory; else 0.
int64_t PaddedChannels(const View& view);

// The box `region` of `view`.
View Slice(const View& view, const program::Region& region);

// True if the elements fill one range of memory in the order of Natural.
bool IsDense(const View& view);

// The same elements, in the same row-major order, under another shape; nothing if strides do not allow it.
std::optional<View> Reshape(const View& view, const program::Shape& shape);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_VIEW_H_
