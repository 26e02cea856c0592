#include "program/work.h"

#include <gtest/gtest.h>

#include "program/builder.h"

namespace colonnade::program {
namespace {

class WorkOfTasks : public testing::Test {
 protected:
  BufferId New(DType type, Shape shape) { return b_.AddBuffer(0, "x", type, std::move(shape)); }
  Work Of(Op op, Uses uses, int64_t flops = 0) {
    const TaskId task = b_.AddCompute(0, Lane::kCompute, std::move(op), std::move(uses), flops, {});
    return std::move(b_).Build().task(task).work;
  }

  Builder b_{"work", Mode::kTrain, 1, DType::kBF16, {}};
};

TEST_F(WorkOfTasks, EachUseIsMovedOnceInItsOwnType) {
  const BufferId x = New(DType::kBF16, {10}), argmax = New(DType::kU8, {10}), y = New(DType::kF64, {3});
  EXPECT_EQ(Of(Copy{}, {b_.Read(x), b_.Write(argmax), b_.Write(y)}, 7), (Work{7, 20, 10 + 24, 0}));
}

TEST_F(WorkOfTasks, WhatIsAccumulatedIsMovedBothWays) {
  const BufferId x = New(DType::kF32, {10}), y = New(DType::kF32, {3});
  EXPECT_EQ(Of(Sum{}, {b_.Read(x), b_.Accumulate(y)}), (Work{0, 40 + 12, 12, 0}));
}

TEST_F(WorkOfTasks, OfABoxItsElementsCount) {
  const BufferId x = New(DType::kF32, {4, 5});
  EXPECT_EQ(Of(Copy{}, {{x, {{1, 2}, {2, 3}}, Access::kRead}}), (Work{0, 24, 0, 0}));
}

TEST_F(WorkOfTasks, OfABucketTheBytesOfItsParts) {
  const BufferId bucket = b_.AddBucket(
      {.name = "b", .parts = 4, .first_part = 1, .held_parts = 2, .member_names = {"m", "n"}, .member_shapes = {{7}, {2}}});
  EXPECT_EQ(Of(Copy{}, {{bucket, {{1}, {1}}, Access::kWrite}}), (Work{0, 0, 3 * 4, 0})) << "9 elements in 4 parts: 3 each";
}

TEST_F(WorkOfTasks, WhatIsLoadedIsReadFromTheHost) {
  const BufferId x = New(DType::kF32, {10});
  EXPECT_EQ(Of(Load{0}, {b_.Write(x)}), (Work{0, 40, 40, 0}));
}

TEST_F(WorkOfTasks, WhatIsStoredIsWrittenToTheHost) {
  const BufferId x = New(DType::kF32, {10});
  EXPECT_EQ(Of(Store{0}, {b_.Read(x)}), (Work{0, 40, 40, 0}));
}

}  // namespace
}  // namespace colonnade::program
