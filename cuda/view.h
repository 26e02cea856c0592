// How the logical elements of a buffer, or of a box of it, lie in device memory: strides from an offset, nothing else.
//
// Images [n, c, h, w] are channels-last (NHWC), which tensor cores want; filters [k, c, r, s] likewise; all else is
// row-major. Views hold no pointer: offsets count elements from the base of the root buffer. Plain values.
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
};

View RowMajor(program::DType dtype, const program::Shape& shape);
// The layout of a root: channels-last if it has four dimensions, else row-major.
View Natural(program::DType dtype, const program::Shape& shape);

// The box `region` of `view`.
View Slice(const View& view, const program::Region& region);

// True if the elements fill one range of memory in the order of Natural.
bool IsDense(const View& view);

// The same elements, in the same row-major order, under another shape; nothing if strides do not allow it.
std::optional<View> Reshape(const View& view, const program::Shape& shape);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_VIEW_H_
