#include "program/strides.h"

#include <optional>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::program {
namespace {

// Where each element lies, in row-major order.
std::vector<int64_t> OffsetsOf(const Shape& shape, const Shape& strides) {
  std::vector<int64_t> offsets;
  Shape index(shape.size(), 0);
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) offset += index[d] * strides[d];
    offsets.push_back(offset);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return offsets;
}

// The only strides that could put element i at offsets[i]: the way from element 0 to the second of each dimension.
Shape StridesFrom(const std::vector<int64_t>& offsets, const Shape& shape) {
  const Shape steps = RowMajorStrides(shape);
  Shape strides(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) strides[d] = offsets[steps[d]] - offsets[0];
  }
  return strides;
}

// Extents whose product is 24, some of them 1.
Shape DrawShape(std::mt19937& random) {
  Shape shape(1 + random() % 5, 1);
  for (int64_t factor : {2, 2, 2, 3}) shape[random() % shape.size()] *= factor;
  return shape;
}

TEST(ReshapedStrides, AreFoundWhereverThereAreSome) {
  std::mt19937 random(1);
  int found = 0, refused = 0;
  for (int draw = 0; draw < 20000; ++draw) {
    const Shape from = DrawShape(random), to = DrawShape(random);
    Shape larger = from;  // of which `from` is a box
    for (int64_t& extent : larger) extent += random() % 3 == 0;
    Shape strides = RowMajorStrides(larger);
    if (random() % 3 == 0) std::swap(strides.front(), strides.back());  // elements may share memory: that is no matter
    const std::vector<int64_t> offsets = OffsetsOf(from, strides);
    const bool exist = OffsetsOf(to, StridesFrom(offsets, to)) == offsets;
    const std::optional<Shape> reshaped = ReshapedStrides(from, strides, to);
    ASSERT_EQ(reshaped.has_value(), exist) << ToString(from) << ToString(strides) << " as " << ToString(to);
    exist ? ++found : ++refused;
    if (!exist) continue;
    EXPECT_EQ(OffsetsOf(to, *reshaped), offsets) << ToString(from) << ToString(strides) << " as " << ToString(to);
  }
  EXPECT_GT(found, 2000);
  EXPECT_GT(refused, 2000);
}

TEST(ReshapedStrides, OfNothingAreAny) {
  EXPECT_TRUE(ReshapedStrides({0, 3}, {3, 1}, {3, 0}).has_value());
  EXPECT_TRUE(ReshapedStrides({}, {}, {1, 1}).has_value());
  EXPECT_FALSE(ReshapedStrides({2, 3}, {3, 1}, {5}).has_value());
}

TEST(StrideAlike, LeavesOutDimensionsOfOneElement) {
  EXPECT_TRUE(StrideAlike({6, 7, 1}, {6, 9, 1}, {2, 1, 3}));
  EXPECT_FALSE(StrideAlike({6, 7, 1}, {6, 9, 1}, {2, 2, 3}));
}

TEST(ChannelsFirst, PutsTheLastBehindTheFirst) {
  EXPECT_EQ(ChannelsFirst({8, 32, 31, 3}), (Shape{8, 3, 32, 31}));
  EXPECT_EQ(ChannelsFirst({8, 5}), (Shape{8, 5}));
  for (const Shape& shape : {Shape{8, 3, 32, 31}, Shape{8, 5}}) EXPECT_EQ(ChannelsFirst(ChannelsLast(shape)), shape);
}

}  // namespace
}  // namespace colonnade::program
