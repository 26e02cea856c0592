#include "cpu/load/box.h"

#include <random>
#include <vector>

#include "cpu/ops/copy.h"
#include "gtest/gtest.h"

namespace colonnade::cpu {
namespace {

using program::DType;
using program::Region;
using program::Shape;

// Calls visit(index) for all indices of `shape`, row-major.
template <class Visit>
void ForIndices(const Shape& shape, const Visit& visit) {
  Shape index(shape.size(), 0);
  for (int64_t i = 0; i < program::ElementCount(shape); ++i) {
    visit(index);
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

TEST(BoxCopy, EqualsElementByElementForAnyBoxesAndLayouts) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const int64_t channels[] = {8, 16, 32, 48, 17};
  for (int trial = 0; trial < 400; ++trial) {
    const Shape size = {1 + below(3), 1 + below(20), 1 + below(5), 1 + below(5)};
    std::vector<View> views;
    std::vector<std::vector<float>> memory;
    for (int side = 0; side < 2; ++side) {
      Shape whole = size;
      for (size_t d = 0; d < 4; ++d) whole[d] += below(3);
      while (true) {
        whole[1] = channels[below(5)];
        if (whole[1] >= size[1]) break;
      }
      Region box{{0, 0, 0, 0}, size};
      for (size_t d = 0; d < 4; ++d) box.offset[d] = below(whole[d] - size[d] + 1);
      views.push_back(Slice(below(2) == 0 ? Natural(DType::kF32, whole) : RowMajor(DType::kF32, whole), box));
      memory.emplace_back(program::ElementCount(whole));
    }
    for (size_t i = 0; i < memory[0].size(); ++i) memory[0][i] = static_cast<float>(i + 1);
    std::vector<float> expected = memory[1];
    ForIndices(size,
               [&](const Shape& index) { expected[OffsetOf(views[1], index)] = memory[0][OffsetOf(views[0], index)]; });
    const BoxPlan plan(views);
    CopyRows(plan, /*threads=*/1 + trial % 3, 4, reinterpret_cast<char*>(memory[0].data()),
             reinterpret_cast<char*>(memory[1].data()));
    ASSERT_EQ(memory[1], expected) << "trial " << trial;
  }
}

TEST(BoxPlan, RowsOfSeveralPlansAreEachVisitedOnceByAnyNumberOfThreads) {
  struct Part {
    BoxPlan plan;
    std::vector<int>* visits;  // of each element
  };
  for (int threads = 1; threads <= 4; ++threads) {
    std::vector<std::vector<int>> visits;
    for (int64_t elements : {3, 10000, 2048, 1, 4100, 7}) visits.emplace_back(elements);
    std::vector<Part> parts;
    for (std::vector<int>& of : visits) {
      parts.push_back({BoxPlan({RowMajor(DType::kF32, {static_cast<int64_t>(of.size())})}), &of});
    }
    ForAllRowsOf(parts, threads, [](const Part& part, const Row& row) {
      for (int64_t i = 0; i < row.size; ++i) ++(*part.visits)[row.offset[0] + i * row.stride[0]];
    });
    for (const std::vector<int>& of : visits) EXPECT_EQ(of, std::vector<int>(of.size(), 1)) << threads << " threads";
  }
}

TEST(BoxPlan, MergesEqualDenseLayoutsToOneRange) {
  const View view = ChannelBlocked(DType::kF32, {2, 32, 3, 5});
  EXPECT_EQ(BoxPlan({view, view}).rows(), 1);
  const View large = ChannelBlocked(DType::kF32, {4, 64, 16, 16});
  EXPECT_EQ(BoxPlan({large, large}).rows(), 4 * 64 * 16 * 16 / BoxPlan::kMaxRow);
}

TEST(BoxPlan, RowRangesTogetherVisitEachElementOnce) {
  const View view = Slice(ChannelBlocked(DType::kF32, {2, 48, 3, 5}), {{0, 5, 1, 1}, {2, 30, 2, 3}});
  const BoxPlan plan({view});
  std::vector<int> visits(2 * 48 * 3 * 5);
  for (int part = 0; part < 7; ++part) {
    plan.ForRows(plan.rows() * part / 7, plan.rows() * (part + 1) / 7, [&](const Row& row) {
      for (int64_t i = 0; i < row.size; ++i) ++visits[row.offset[0] + i * row.stride[0]];
    });
  }
  ForIndices(view.shape, [&](const Shape& index) { visits[OffsetOf(view, index)] -= 1; });
  EXPECT_EQ(visits, std::vector<int>(visits.size(), 0));
}

TEST(View, OnlyWholeBlocksInOrderAreDense) {
  const View view = ChannelBlocked(DType::kF32, {4, 32, 3, 5});
  EXPECT_TRUE(IsDense(view));
  EXPECT_TRUE(IsDense(Slice(view, {{1, 0, 0, 0}, {2, 32, 3, 5}})));
  EXPECT_FALSE(IsDense(Slice(view, {{0, 0, 0, 0}, {4, 16, 3, 5}})));
  EXPECT_TRUE(IsDense(Slice(view, {{2, 16, 0, 0}, {1, 16, 3, 5}})));
  EXPECT_FALSE(IsDense(Slice(view, {{2, 8, 0, 0}, {1, 16, 3, 5}})));
}

TEST(View, ReshapesWhereStridesAllow) {
  const View rows = Slice(RowMajor(DType::kF32, {6, 40}), {{1, 0}, {4, 24}});
  const auto images = Reshape(rows, {4, 2, 3, 4});
  ASSERT_TRUE(images.has_value());
  ForIndices(images->shape, [&](const Shape& i) {
    EXPECT_EQ(OffsetOf(*images, i), OffsetOf(rows, {i[0], (i[1] * 3 + i[2]) * 4 + i[3]}));
  });
  const View boxes = Slice(RowMajor(DType::kF32, {4, 3, 5, 5}), {{0, 0, 0, 0}, {4, 3, 5, 4}});
  EXPECT_FALSE(Reshape(boxes, {4, 60}).has_value());
  EXPECT_TRUE(Reshape(boxes, {4, 15, 4}).has_value());
}

}  // namespace
}  // namespace colonnade::cpu
