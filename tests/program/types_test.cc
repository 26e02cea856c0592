#include "program/types.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "program/boxes.h"
#include "program/formulas/bfloat16.h"

namespace colonnade::program {
namespace {

float OfBits(int bits) {
  BFloat16 value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

TEST(BFloat16, ComesBackAndIsTheNearestTiesToEven) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float value = OfBits(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
      continue;
    }
    EXPECT_EQ(BFloat16(value).bits, bits);
    const float next = OfBits(bits + 1);  // away from zero
    if (!std::isfinite(value) || !std::isfinite(next)) continue;
    const double middle = (double{value} + double{next}) / 2;  // an f32, too
    EXPECT_EQ(BFloat16(static_cast<float>(middle)).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(BFloat16(std::nextafter(static_cast<float>(middle), value)).bits, bits);
    EXPECT_EQ(BFloat16(std::nextafter(static_cast<float>(middle), next)).bits, bits + 1);
  }
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({3, 5}), 15);
  EXPECT_EQ(ElementCount({3, 0, 5}), 0);
  EXPECT_EQ(ToString(Shape{64, 96}), "[64,96]");
}

TEST(Region, OverlapsOnlyWhereElementsAreShared) {
  const Region a{{0, 0}, {4, 4}}, beside{{0, 4}, {4, 4}}, corner{{3, 3}, {2, 2}}, empty{{1, 1}, {0, 2}};
  EXPECT_FALSE(Overlaps(a, beside));
  EXPECT_TRUE(Overlaps(a, corner));
  EXPECT_FALSE(Overlaps(a, empty));
  EXPECT_EQ(Intersection(a, corner), (Region{{3, 3}, {1, 1}}));
  EXPECT_EQ(Intersection(a, beside).elements(), 0);
  EXPECT_TRUE(Contains(a, {{1, 2}, {3, 2}}));
  EXPECT_FALSE(Contains(a, corner));
  EXPECT_EQ(ToString(corner), "[3:5,3:5]");
}

TEST(Boxes, SubtractLeavesDisjointBoxesOfTheRest) {
  std::vector<Region> boxes = {Region::Whole({5, 5, 5})};
  Subtract({{1, 1, 1}, {3, 3, 3}}, boxes);
  int64_t elements = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    elements += boxes[i].elements();
    EXPECT_FALSE(Overlaps(boxes[i], {{1, 1, 1}, {3, 3, 3}}));
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(Overlaps(boxes[i], boxes[j]));
  }
  EXPECT_EQ(elements, 125 - 27);
}

TEST(Boxes, CoveredByOverlappingPieces) {
  const Region whole = Region::Whole({6});
  EXPECT_TRUE(Uncovered(whole, {{{0}, {4}}, {{2}, {4}}}).empty());
  const std::vector<Region> left = Uncovered(whole, {{{0}, {2}}, {{3}, {3}}});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0], (Region{{2}, {1}}));
}

}  // namespace
}  // namespace colonnade::program
