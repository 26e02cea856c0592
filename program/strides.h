// Strides of tensors whose elements lie at base + Σ index[d]·strides[d], counted in elements. Pure functions.
#ifndef COLONNADE_PROGRAM_STRIDES_H_
#define COLONNADE_PROGRAM_STRIDES_H_

#include <optional>

#include "program/types.h"

namespace colonnade::program {

Shape RowMajorStrides(const Shape& shape);

// Returns whether two tensors of `shape` have their elements at equal distances: strides of one element do not count.
bool StrideAlike(const Shape& a, const Shape& b, const Shape& shape);

// Returns the strides under which a tensor of shape `to` has the same elements, in the same row-major order, as one of shape
// `from` and of these strides; nothing where no strides do.
std::optional<Shape> ReshapedStrides(const Shape& from, const Shape& strides, const Shape& to);

// Returns the extents, or the strides, of [n,…,C] in the order [n,C,…].
Shape ChannelsFirst(Shape channels_last);
// Returns those of [n,C,…] in the order [n,…,C].
Shape ChannelsLast(Shape channels_first);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_STRIDES_H_
