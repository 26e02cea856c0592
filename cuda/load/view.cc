#include "cuda/load/view.h"

#include "program/strides.h"

namespace colonnade::cuda {

using program::DType;
using program::Region;
using program::Shape;

View RowMajor(DType dtype, const Shape& shape) { return {dtype, shape, program::RowMajorStrides(shape), 0}; }

View Natural(DType dtype, const Shape& shape) {
  if (shape.size() != 4) return RowMajor(dtype, shape);
  return {dtype, shape, {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]}, 0};
}

int64_t OffsetOf(const View& view, absl::Span<const int64_t> index) {
  if (view.folded.has_value()) {
    return view.offset + index[0] * view.strides[0] + view.folded->At(view.shape[1], index[1], index[2], index[3]);
  }
  int64_t at = view.offset;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[d];
  return at;
}

View Slice(const View& view, const Region& region) {
  View slice = view;
  slice.shape = region.size;
  for (size_t d = 0; d < region.offset.size(); ++d) slice.offset += region.offset[d] * view.strides[d];
  return slice;
}

bool IsDense(const View& view) {
  if (view.folded.has_value()) return false;
  return program::StrideAlike(view.strides, Natural(view.dtype, view.shape).strides, view.shape);
}

std::optional<View> Reshape(const View& view, const Shape& shape) {
  if (shape == view.shape) return view;
  const std::optional<Shape> strides = program::ReshapedStrides(view.shape, view.strides, shape);
  if (!strides.has_value()) return std::nullopt;
  return View{view.dtype, shape, *strides, view.offset};
}

}  // namespace colonnade::cuda
