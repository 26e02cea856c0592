#include "cuda/load/view.h"

namespace colonnade::cuda {

using program::DType;
using program::Region;
using program::Shape;

View RowMajor(DType dtype, const Shape& shape) {
  View view{dtype, shape, Shape(shape.size(), 1), 0};
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) view.strides[d] = view.strides[d + 1] * shape[d + 1];
  return view;
}

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
  const View natural = Natural(view.dtype, view.shape);
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] > 1 && view.strides[d] != natural.strides[d]) return false;
  }
  return true;
}

// Dimensions of the target are taken from the back; each lies within one dimension of the source, or spans neighbours that
// follow each other in memory.
std::optional<View> Reshape(const View& view, const Shape& shape) {
  if (shape == view.shape) return view;
  if (program::ElementCount(shape) != program::ElementCount(view.shape)) return std::nullopt;
  View result{view.dtype, shape, Shape(shape.size(), 1), view.offset};
  int from = static_cast<int>(view.shape.size()) - 1;
  int64_t left = from >= 0 ? view.shape[from] : 1, stride = from >= 0 ? view.strides[from] : 1;
  for (int to = static_cast<int>(shape.size()) - 1; to >= 0; --to) {
    int64_t need = shape[to];
    if (need == 1) continue;
    while (left == 1 && from > 0) {
      --from;
      left = view.shape[from];
      stride = view.strides[from];
    }
    result.strides[to] = stride;
    while (need > left) {
      if (need % left != 0 || from == 0) return std::nullopt;
      need /= left;
      const int64_t expected = stride * left;
      --from;
      while (from > 0 && view.shape[from] == 1) --from;
      if (view.shape[from] > 1 && view.strides[from] != expected) return std::nullopt;
      left = view.shape[from];
      stride = expected;
    }
    if (left % need != 0) return std::nullopt;
    left /= need;
    stride *= need;
  }
  return result;
}

}  // namespace colonnade::cuda
