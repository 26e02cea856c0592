#include "cpu/load/view.h"

#include <utility>

#include "program/formulas/rounding.h"
#include "program/strides.h"

namespace colonnade::cpu {

using program::DType;
using program::ElementCount;
using program::Region;
using program::RowMajorStrides;
using program::Shape;
using program::StrideAlike;

namespace {

Shape BlockedStrides(const Shape& shape) {
  const int64_t w = kChannelBlock, h = w * shape[3], block = h * shape[2];
  return {block * (shape[1] / kChannelBlock), block, h, w};
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
      return StrideAlike(view.strides, RowMajorStrides(view.shape), view.shape);
    case View::Kind::kBlocked: {
      if (view.phase != 0 || view.shape[1] % kChannelBlock != 0) return false;
      const Shape blocks = {view.shape[0], view.shape[1] / kChannelBlock, view.shape[2], view.shape[3]};
      return StrideAlike(view.strides, BlockedStrides(view.shape), blocks);
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
  if (view.kind != View::Kind::kAffine) return std::nullopt;
  const std::optional<Shape> strides = program::ReshapedStrides(view.shape, view.strides, shape);
  if (!strides.has_value()) return std::nullopt;
  View reshaped = view;
  reshaped.shape = shape;
  reshaped.strides = *strides;
  return reshaped;
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
