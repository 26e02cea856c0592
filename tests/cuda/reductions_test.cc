#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cuda/kernels/kernels.h"
#include "cuda/ops/elementwise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run_kernel.h"

namespace colonnade::cuda {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Softmax {
  std::vector<float> p;
  SampleMetrics metrics;
};
Softmax SoftmaxOf(const std::vector<float>& logits, int32_t label) {
  const auto classes = static_cast<int64_t>(logits.size());
  SoftmaxPart total = {};
  Softmax result = {std::vector<float>(classes), {}};
  RunOnHost(SoftmaxSamples<float>{1, 0, 1, classes, logits.data(), classes, 1, &label, 1, &total, &result.metrics});
  RunOnHost(SoftmaxElements<float>{1, classes, logits.data(), classes, 1, &total, result.p.data(), classes, 1});
  return result;
}

// A logit that has overflowed to −∞ has no share, whether a thread sees others or not.
TEST(Softmax, MinusInfinityHasProbabilityZero) {
  for (int64_t classes : {3, 256, 257, 300, 1000}) {
    SCOPED_TRACE(classes);
    std::vector<float> logits(classes, kNone);
    logits[1] = 0;
    logits[2] = 1;
    const Softmax softmax = SoftmaxOf(logits, 2);
    EXPECT_NEAR(softmax.metrics.loss, std::log(1 + std::exp(-1.0)), 1e-7);
    EXPECT_EQ(softmax.metrics.top1, 1);
    EXPECT_EQ(softmax.p[0], 0);
    EXPECT_NEAR(softmax.p[1] + softmax.p[2], 1, 1e-6);
  }
}

// Nothing but −∞ is no distribution: the loss says so, and the host stops.
TEST(Softmax, OnlyMinusInfinityIsNotFinite) { EXPECT_TRUE(std::isnan(SoftmaxOf({kNone, kNone}, 0).metrics.loss)); }

TEST(Softmax, NanAndInfinityAreNotFinite) {
  EXPECT_TRUE(std::isnan(SoftmaxOf({0, std::nanf(""), 1}, 0).metrics.loss));
  EXPECT_FALSE(std::isfinite(SoftmaxOf({0, -kNone, 1}, 0).metrics.loss));
}

// Every row of every column is merged once, whatever the number of rows.
TEST(Reductions, MergeEveryRowOnce) {
  for (int rows = 1; rows <= kThreadsOfBlock; ++rows) {
    std::vector<int> seen(rows, 1);
    for (int left = rows; left > 1; left = (left + 1) / 2) {
      for (int row = 0; row < left; ++row) {
        const int partner = PartnerOf(row, left);
        if (partner < 0) continue;
        ASSERT_GE(partner, (left + 1) / 2) << "merged into a row that is read by others";
        seen[row] += seen[partner];
        seen[partner] = 0;
      }
    }
    EXPECT_EQ(seen[0], rows);
  }
}

// A small integer for each channel and position.
int NumberAt(int64_t position, int64_t channel) { return static_cast<int>(channel % 7 - 3 + position % 3); }

// The operand dy [n, channels, h, w], or [n, channels], lies channels-last.
template <class T>
std::vector<float> SumChannels(const program::Shape& shape) {
  const View view = Natural(sizeof(T) == 2 ? program::DType::kBF16 : program::DType::kF32, shape);
  std::vector<Vector<T, kLanesOf<T>>> dy(program::ElementCount(shape) / kLanesOf<T> + 1);
  for (int64_t i = 0; i < program::ElementCount(shape); ++i) {
    dy[0].of[i] = static_cast<T>(static_cast<float>(NumberAt(i / shape[1], i % shape[1])));
  }
  std::vector<float> db(shape[1]);
  const program::Program program;
  const program::Task task;
  TaskContext context{.program = program, .task = task, .operands = {}};
  std::vector<double> memory;
  std::vector<Call> calls;
  for (int pass = 0; pass < 2; ++pass) {
    calls.clear();
    Workspace workspace(context);
    const absl::Status status = AppendChannelSums(
        {view, reinterpret_cast<char*>(dy.data())},
        {RowMajor(program::DType::kF32, {shape[1]}), reinterpret_cast<char*>(db.data())}, workspace, calls);
    EXPECT_TRUE(status.ok()) << status;
    memory.resize(workspace.bytes() / sizeof(double) + 1);
    context.workspace = reinterpret_cast<char*>(memory.data());
  }
  for (const Call& call : calls) RunKernelOnHost(std::get<Kernel>(call));
  return db;
}

TEST(Reductions, SumEveryPositionOfEveryChannel) {
  for (const program::Shape& shape : std::vector<program::Shape>{{256, 64, 27, 27},
                                                                 {3, 96, 55, 55},
                                                                 {2, 192, 27, 27},
                                                                 {64, 384, 13, 13},
                                                                 {256, 4096},
                                                                 {256, 1000},
                                                                 {64, 10},
                                                                 {64, 6, 24, 24},
                                                                 {3, 1, 5, 5},
                                                                 {1, 520, 7, 7}}) {
    SCOPED_TRACE(program::ToString(shape));
    std::vector<float> expected(shape[1]);
    for (int64_t i = 0; i < program::ElementCount(shape); ++i) {
      expected[i % shape[1]] += static_cast<float>(NumberAt(i / shape[1], i % shape[1]));
    }
    EXPECT_EQ(SumChannels<float>(shape), expected);
    EXPECT_EQ(SumChannels<program::BFloat16>(shape), expected);
  }
}

// A range that starts between multiples of 16 bytes is copied before threads read four elements at once.
TEST(Reductions, CheckFiniteReadsVectorsWhereTheyAreAligned) {
  const program::Program program;
  const program::Task task;
  for (int64_t offset : {0, 1, 4}) {
    SCOPED_TRACE(offset);
    for (int64_t bad : {-1, 0, 63, 66}) {
      std::vector<Vector<float, 4>> x(18);
      std::fill_n(x[0].of, 72, kNone);  // what is not checked
      std::fill_n(x[0].of + offset, 67, 1.0f);
      if (bad >= 0) x[0].of[offset + bad] = std::nanf("");
      int32_t flag = 7;
      View view = RowMajor(program::DType::kF32, {67});
      view.offset = offset;
      std::vector<Vector<double, 2>> memory(256);
      TaskContext context{.program = program,
                          .task = task,
                          .operands = {{view, reinterpret_cast<char*>(x.data())},
                                       {RowMajor(program::DType::kI32, {1}), reinterpret_cast<char*>(&flag)}},
                          .workspace = reinterpret_cast<char*>(memory.data())};
      const PreparedTask ready = Prepare(program::CheckFinite{}, context);
      ASSERT_TRUE(ready.ok()) << ready.status();
      ASSERT_LE(ready->workspace_bytes, static_cast<int64_t>(memory.size() * sizeof(memory[0])));
      EXPECT_EQ(std::holds_alternative<CopyBytes>(ready->calls[0]), offset % 4 != 0);
      for (const Call& call : ready->calls) {
        if (const auto* copy = std::get_if<CopyBytes>(&call)) {
          std::memcpy(copy->to, copy->from, copy->bytes);
        } else {
          RunKernelOnHost(std::get<Kernel>(call));
        }
      }
      EXPECT_EQ(flag, bad < 0 ? 1 : 0) << bad;
    }
  }
}

}  // namespace
}  // namespace colonnade::cuda
