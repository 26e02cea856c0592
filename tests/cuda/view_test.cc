#include "cuda/load/view.h"

#include <set>

#include "cuda/kernels/walk.h"
#include "gtest/gtest.h"
#include "program/formulas/philox.h"

namespace colonnade::cuda {
namespace {

using program::DType;
using program::Region;
using program::Shape;

// Where each element of a view lies, in row-major order.
std::vector<int64_t> OffsetsOf(const View& view) {
  std::vector<int64_t> offsets;
  Shape index(view.shape.size(), 0);
  for (int64_t i = 0; i < program::ElementCount(view.shape); ++i) {
    int64_t at = view.offset;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[d];
    offsets.push_back(at);
    for (int d = static_cast<int>(index.size()) - 1; d >= 0 && ++index[d] == view.shape[d]; --d) index[d] = 0;
  }
  return offsets;
}

TEST(View, ImagesAreChannelsLast) {
  const View view = Natural(DType::kF32, {2, 3, 4, 5});
  EXPECT_EQ(view.strides, (Shape{60, 1, 15, 3}));
  EXPECT_TRUE(IsDense(view));
  EXPECT_EQ(Natural(DType::kF32, {2, 3}).strides, (Shape{3, 1}));
}

TEST(View, ABoxOfChannelsIsNotDenseAndOneOfSamplesIs) {
  const View view = Natural(DType::kF32, {4, 6, 2, 2});
  const View channels = Slice(view, {{0, 2, 0, 0}, {4, 2, 2, 2}});
  EXPECT_EQ(channels.offset, 2);
  EXPECT_FALSE(IsDense(channels));
  const View samples = Slice(view, {{1, 0, 0, 0}, {2, 6, 2, 2}});
  EXPECT_EQ(samples.offset, 24);
  EXPECT_TRUE(IsDense(samples));
}

TEST(Reshape, KeepsTheOrderOfElementsOrRefuses) {
  const View matrix = RowMajor(DType::kF32, {3, 24});
  const std::optional<View> image = Reshape(matrix, {3, 2, 3, 4});
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(OffsetsOf(*image), OffsetsOf(matrix));
  const std::optional<View> back = Reshape(*image, {3, 24});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(OffsetsOf(*back), OffsetsOf(matrix));
  EXPECT_FALSE(Reshape(Natural(DType::kF32, {3, 2, 3, 4}), {3, 24}).has_value());
  EXPECT_FALSE(Reshape(matrix, {3, 25}).has_value());
}

TEST(Reshape, OfABoxKeepsItsRows) {
  const View box = Slice(RowMajor(DType::kF32, {5, 16}), {{1, 4}, {3, 8}});
  const std::optional<View> image = Reshape(box, {3, 2, 2, 2});
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(OffsetsOf(*image), OffsetsOf(box));
  EXPECT_FALSE(Reshape(box, {24}).has_value());
}

TEST(Walk, MeetsEveryElementOfEveryOperandTogether) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const program::Philox4 r = program::RandomBlock(seed, program::RandomPurpose::kSyntheticData, 0, 0, 0);
    const Shape shape = {1 + r.v[0] % 4, 1 + r.v[1] % 5, 1 + r.v[2] % 4, 1 + r.v[3] % 3};
    Shape larger = shape;
    larger[1] += 3;
    const View views[] = {Natural(DType::kF32, shape), RowMajor(DType::kF32, shape),
                          Slice(Natural(DType::kF32, larger), {{0, 2, 0, 0}, shape})};
    const absl::StatusOr<Walk> walk = WalkOver(views);
    ASSERT_TRUE(walk.ok()) << walk.status();
    std::set<std::vector<int64_t>> met, expected;
    for (int64_t i = 0; i < walk->count; ++i) met.insert({walk->At(0, i), walk->At(1, i), walk->At(2, i)});
    const std::vector<int64_t> a = OffsetsOf(views[0]), b = OffsetsOf(views[1]), c = OffsetsOf(views[2]);
    for (size_t i = 0; i < a.size(); ++i) expected.insert({a[i], b[i], c[i]});
    EXPECT_EQ(met, expected) << program::ToString(shape);
  }
}

TEST(Walk, WholeTensorsAreOneDimension) {
  const View view = Natural(DType::kF32, {4, 8, 3, 3});
  const absl::StatusOr<Walk> walk = WalkOver({view, view});
  ASSERT_TRUE(walk.ok());
  EXPECT_EQ(walk->rank, 1);
  EXPECT_EQ(walk->stride[0][0], 1);
}

TEST(Walk, OfDifferentShapesIsRefused) {
  EXPECT_EQ(WalkOver({RowMajor(DType::kF32, {2, 3}), RowMajor(DType::kF32, {3, 2})}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace colonnade::cuda
