#include "program/strides.h"

#include <algorithm>

namespace colonnade::program {
namespace {

// Neighbouring dimensions of two shapes that have as many elements: [from, from_end) of one, [to, to_end) of the other.
struct EqualDimensions {
  size_t from, from_end, to, to_end;
};

// REQUIRES: as many elements in both, at least one.
EqualDimensions NextEqual(const Shape& from, size_t from_begin, const Shape& to, size_t to_begin) {
  EqualDimensions equal{from_begin, from_begin + 1, to_begin, to_begin + 1};
  int64_t from_elements = from[from_begin], to_elements = to[to_begin];
  while (from_elements != to_elements) {
    if (from_elements < to_elements) {
      from_elements *= from[equal.from_end++];
    } else {
      to_elements *= to[equal.to_end++];
    }
  }
  return equal;
}

// The stride of the innermost element, if the dimensions [begin, end) can be walked as one.
std::optional<int64_t> StrideAsOne(const Shape& shape, const Shape& strides, size_t begin, size_t end) {
  std::optional<int64_t> innermost;
  int64_t next = 0;
  for (size_t d = end; d-- > begin;) {
    if (shape[d] == 1) continue;
    if (innermost.has_value() && strides[d] != next) return std::nullopt;
    if (!innermost.has_value()) innermost = strides[d];
    next = strides[d] * shape[d];
  }
  return innermost.value_or(1);
}

}  // namespace

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool StrideAlike(const Shape& a, const Shape& b, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

std::optional<Shape> ReshapedStrides(const Shape& from, const Shape& strides, const Shape& to) {
  if (ElementCount(from) != ElementCount(to)) return std::nullopt;
  Shape reshaped = RowMajorStrides(to);
  if (ElementCount(from) == 0) return reshaped;
  size_t next_from = 0, next_to = 0;
  while (next_from < from.size() && next_to < to.size()) {
    const EqualDimensions equal = NextEqual(from, next_from, to, next_to);
    const std::optional<int64_t> innermost = StrideAsOne(from, strides, equal.from, equal.from_end);
    if (!innermost.has_value()) return std::nullopt;
    reshaped[equal.to_end - 1] = *innermost;
    for (size_t d = equal.to_end - 1; d-- > equal.to;) reshaped[d] = reshaped[d + 1] * to[d + 1];
    next_from = equal.from_end;
    next_to = equal.to_end;
  }
  return reshaped;
}

Shape ChannelsFirst(Shape channels_last) {
  std::rotate(channels_last.begin() + 1, channels_last.end() - 1, channels_last.end());
  return channels_last;
}

Shape ChannelsLast(Shape channels_first) {
  std::rotate(channels_first.begin() + 1, channels_first.begin() + 2, channels_first.end());
  return channels_first;
}

}  // namespace colonnade::program
