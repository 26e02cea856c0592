#include "cpu/load/view.h"

#include <utility>

#include "program/rounding.h"

namespace colonnade::cpu {

using program::DType;
using program::ElementCount;
using program::Region;
using program::Shape;

namespace {

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

Shape BlockedStrides(const Shape& shape) {
  const int64_t w = kChannelBlock, h = w * shape[3], block = h * shape[2];
  return {block * (shape[1] / kChannelBlock), block, h, w};
}

bool EqualWhereExtended(const Shape& a, const Shape& b, const Shape& extents) {
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

dnnl::memory::data_type DnnlType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
    case DType::kU8:
      return dnnl::memory::data_type::u8;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kF64:
      break;
  }
  return dnnl::memory::data_type::undef;
}

}  // namespace

View RowMajor(DType dtype, const Shape& shape) {
  return {.kind = View::Kind::kAffine, .dtype = dtype, .shape = shape, .strides = RowMajorStrides(shape)};
}

View ChannelBlocked(DType dtype, const Shape& shape) {
  return {.kind = View::Kind::kBlocked, .dtype = dtype, .shape = shape, .strides = BlockedStrides(shape)};
}

View Opaque(DType dtype, const Shape& shape, std::shared_ptr<const MemoryDesc> desc) {
  View view = OpaqueBytes(dtype, shape, static_cast<int64_t>(desc->get_size()));
  view.desc = std::move(desc);
  return view;
}

View OpaqueBytes(DType dtype, const Shape& shape, int64_t bytes) {
  const int64_t size = program::SizeInBytes(dtype);
  return {.kind = View::Kind::kOpaque, .dtype = dtype, .shape = shape, .opaque_elements = program::CeilDiv(bytes, size)};
}

View Natural(DType dtype, const Shape& shape) {
  const bool is_image = (dtype == DType::kF32 || dtype == DType::kBF16) && shape.size() == 4;
  const bool blocked = is_image && shape[1] % kChannelBlock == 0;
  return blocked ? ChannelBlocked(dtype, shape) : RowMajor(dtype, shape);
}

View Slice(const View& view, const Region& region) {
  View slice = view;
  slice.shape = region.size;
  if (view.kind == View::Kind::kAffine) {
    for (size_t d = 0; d < region.offset.size(); ++d) slice.offset += region.offset[d] * view.strides[d];
  } else if (view.kind == View::Kind::kBlocked) {
    const int64_t channel = view.phase + region.offset[1];
    slice.offset += region.offset[0] * view.strides[0] + channel / kChannelBlock * view.strides[1] +
                    region.offset[2] * view.strides[2] + region.offset[3] * view.strides[3];
    slice.phase = channel % kChannelBlock;
  }
  return slice;
}

bool IsDense(const View& view) {
  switch (view.kind) {
    case View::Kind::kAffine:
      return EqualWhereExtended(view.strides, RowMajorStrides(view.shape), view.shape);
    case View::Kind::kBlocked: {
      if (view.phase != 0 || view.shape[1] % kChannelBlock != 0) return false;
      const Shape blocks = {view.shape[0], view.shape[1] / kChannelBlock, view.shape[2], view.shape[3]};
      return EqualWhereExtended(view.strides, BlockedStrides(view.shape), blocks);
    }
    case View::Kind::kOpaque:
      return true;
  }
  return false;
}

bool InRows(const View& view) { return view.kind == View::Kind::kAffine && IsDense(view); }

int64_t MemoryElements(const View& view) {
  return view.kind == View::Kind::kOpaque ? view.opaque_elements : ElementCount(view.shape);
}

View Flat(const View& view) {
  View flat = RowMajor(view.dtype, {MemoryElements(view)});
  flat.offset = view.offset;
  return flat;
}

std::optional<View> Reshape(const View& view, const Shape& shape) {
  if (view.kind != View::Kind::kAffine || ElementCount(view.shape) != ElementCount(shape)) return std::nullopt;
  View result = view;
  result.shape = shape;
  result.strides.assign(shape.size(), 0);
  size_t from = 0, to = 0;
  // Groups of neighbouring dimensions with equal products, outermost first.
  while (from < view.shape.size() && to < shape.size()) {
    const size_t first_from = from, first_to = to;
    int64_t product_from = view.shape[from++], product_to = shape[to++];
    while (product_from != product_to) {
      if (product_from < product_to) {
        product_from *= view.shape[from++];
      } else {
        product_to *= shape[to++];
      }
    }
    int64_t stride = 0;
    for (size_t d = from; d-- > first_from;) {
      if (view.shape[d] == 1) continue;
      if (stride != 0 && view.strides[d] != stride) return std::nullopt;
      if (stride == 0) result.strides[to - 1] = view.strides[d];
      stride = view.strides[d] * view.shape[d];
    }
    for (size_t d = to - 1; d-- > first_to;) result.strides[d] = result.strides[d + 1] * shape[d + 1];
  }
  return result;
}

int64_t OffsetOf(const View& view, const Shape& index) {
  int64_t offset = view.offset;
  if (view.kind == View::Kind::kBlocked) {
    const int64_t channel = view.phase + index[1];
    return offset + index[0] * view.strides[0] + channel / kChannelBlock * view.strides[1] + index[2] * view.strides[2] +
           index[3] * view.strides[3] + channel % kChannelBlock;
  }
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return offset;
}

bool SameLayout(const View& a, const View& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.shape != b.shape) return false;
  if (a.kind == View::Kind::kOpaque) {
    if (a.desc == nullptr || b.desc == nullptr) return a.desc == b.desc && a.opaque_elements == b.opaque_elements;
    return *a.desc == *b.desc;
  }
  return a.phase == b.phase && a.strides == b.strides;
}

MemoryDesc DescOf(const View& view) {
  if (view.kind == View::Kind::kOpaque && view.desc != nullptr) return *view.desc;
  if (view.kind == View::Kind::kBlocked) {
    return MemoryDesc(DimsOf(view.shape), DnnlType(view.dtype), dnnl::memory::format_tag::nChw16c);
  }
  return MemoryDesc(DimsOf(view.shape), DnnlType(view.dtype), DimsOf(RowMajorStrides(view.shape)));
}

}  // namespace colonnade::cpu
