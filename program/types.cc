#include "program/types.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace colonnade::program {

int64_t SizeInBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
      return 8;
    case DType::kU8:
      return 1;
    case DType::kBF16:
      return 2;
  }
  return 0;
}

bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16; }

bool IsMaster(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }

DType MasterType(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
    case DType::kBF16:
      return "bf16";
  }
  return "?";
}

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::string ToString(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ","), "]"); }

Region Region::Whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

bool Overlaps(const Region& a, const Region& b) {
  for (size_t d = 0; d < a.size.size(); ++d) {
    if (std::max(a.offset[d], b.offset[d]) >= std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d])) return false;
  }
  return true;
}

bool Contains(const Region& outer, const Region& inner) {
  for (size_t d = 0; d < outer.size.size(); ++d) {
    if (inner.offset[d] < outer.offset[d]) return false;
    if (inner.offset[d] + inner.size[d] > outer.offset[d] + outer.size[d]) return false;
  }
  return true;
}

Region Intersection(const Region& a, const Region& b) {
  Region both = a;
  for (size_t d = 0; d < a.size.size(); ++d) {
    both.offset[d] = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    both.size[d] = std::max<int64_t>(0, end - both.offset[d]);
  }
  return both;
}

std::string ToString(const Region& region) {
  std::string text = "[";
  for (size_t d = 0; d < region.size.size(); ++d) {
    // Unsigned, since messages also show regions that are out of all bounds.
    const uint64_t end = static_cast<uint64_t>(region.offset[d]) + static_cast<uint64_t>(region.size[d]);
    absl::StrAppend(&text, d == 0 ? "" : ",", region.offset[d], ":", static_cast<int64_t>(end));
  }
  return text + "]";
}

}  // namespace colonnade::program
