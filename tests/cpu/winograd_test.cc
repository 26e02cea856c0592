// Convolutions by Winograd's algorithm: close to the oracle, the same twice, and taken where they pay and nowhere else.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cpu/about.h"
#include "cpu/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "op_case_run.h"
#include "op_cases.h"
#include "tests/sanitized.h"

namespace colonnade::conformance {
namespace {

using cpu::CpuOptions;

// A convolution of `size` x `size` of images of height x width.
struct Shapes {
  int64_t inputs, outputs, height, width, size = 3, groups = 1;
  int64_t top = 1, bottom = 1, left = 1, right = 1;  // pads
  int64_t stride = 1;
  int64_t images = 2;
};

// y, with bias and ReLU, and the gradients of the convolution.
OpCase Convolution(const Shapes& of) {
  const int64_t n = of.images, down = (of.height + of.top + of.bottom - of.size) / of.stride + 1,
                across = (of.width + of.left + of.right - of.size) / of.stride + 1;
  const program::Window window = {of.size, of.size, of.stride, of.stride, of.top, of.left, of.bottom, of.right};
  const program::Shape x = {n, of.inputs, of.height, of.width}, y = {n, of.outputs, down, across},
                       w = {of.outputs, of.inputs / of.groups, of.size, of.size};
  OpCase made = {.name = "conv"};
  made.operands = {{"x", x, Role::kInput},
                   {"w", w, Role::kParameter},
                   {"b", {of.outputs}, Role::kParameter},
                   {"y", y, Role::kOutput},
                   {"dy", y, Role::kInput},
                   {"dx", x, Role::kOutput},
                   {"dw", w, Role::kOutput},
                   {"db", {of.outputs}, Role::kOutput}};
  made.steps = {{program::ConvForward{window, of.groups, /*bias=*/true, /*relu=*/true}, {0, 1, 2, 3}},
                {program::ConvBackwardData{window, of.groups}, {4, 1, 5}},
                {program::ConvBackwardWeights{window, of.groups, /*bias=*/true}, {0, 4, 6, 7}}};
  return made;
}

constexpr int kResults[] = {3, 5, 6, 7};  // y, dx, dw, db

Values Results(const OpCase& op_case, CpuOptions::Kernels kernels, const Values& values,
               program::DType dtype = program::DType::kF32, int threads = 2) {
  auto backend = cpu::MakeCpuBackend({.threads_per_device = kThreadSanitized ? 1 : threads, .kernels = kernels});
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto loaded = LoadedCase::Load(**backend, op_case, dtype, Home::kStep);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  auto results = (*loaded)->Run(values);
  EXPECT_TRUE(results.ok()) << results.status();
  return *std::move(results);
}

class Winograd : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto backend = cpu::MakeCpuBackend({.kernels = CpuOptions::Kernels::kWinograd});
    if (backend.ok()) return;
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(backend.status().message(), ::testing::HasSubstr("need a processor with AVX-512, or AVX2 and FMA"));
    GTEST_SKIP() << "skipped: " << backend.status().message();
  }

  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  std::mt19937 random_{20261125};
};

TEST_F(Winograd, IsCloseToTheOracleAndTheSameTwice) {
  for (int round = 0; round < Draws(24); ++round) {
    const int64_t groups = Between(1, 2), size = Between(0, 1) == 0 ? 3 : 5;
    Shapes of = {.inputs = 16 * groups * Between(1, 5),
                 .outputs = 16 * groups * Between(1, 5),
                 .height = Between(13, 22),
                 .width = Between(13, 22),
                 .size = size,
                 .groups = groups,
                 .top = Between(0, size - 1),
                 .bottom = Between(0, size - 1),
                 .left = Between(0, size - 1),
                 .right = Between(0, size - 1)};
    if (Between(0, 2) == 0) {  // squares of 4 x 4 pixels
      of = {.inputs = Between(1, 4),
            .outputs = 16 * Between(1, 5),
            .height = Between(50, 70),
            .width = Between(50, 70),
            .size = size == 3 ? Between(9, 12) : Between(17, 20),
            .top = Between(0, 5),
            .bottom = Between(0, 5),
            .left = Between(0, 5),
            .right = Between(0, 5),
            .stride = 4};
    }
    SCOPED_TRACE(testing::PrintToString(std::vector<int64_t>{of.inputs, of.outputs, of.height, of.width, of.size, of.groups,
                                                             of.top, of.bottom, of.left, of.right, of.stride}));
    const OpCase op_case = Convolution(of);
    const Values values = MakeValues(op_case, Data::kNormal, round), expected = *RunOracle(op_case, values);
    const int threads = static_cast<int>(Between(1, 3));
    const auto winograd = [&](const Values& of_operands, program::DType dtype) {
      return Results(op_case, CpuOptions::Kernels::kWinograd, of_operands, dtype, threads);
    };
    const Values first = winograd(values, program::DType::kF32);
    for (int result : kResults) EXPECT_LE(RelativeDistance(first[result], expected[result]), 1e-5) << result;
    EXPECT_EQ(winograd(values, program::DType::kF32), first);

    const Values rounded = MakeValues(op_case, Data::kRounded, round);
    const Values reference = Results(op_case, CpuOptions::Kernels::kReference, rounded, program::DType::kBF16);
    const Values bf16 = winograd(rounded, program::DType::kBF16);
    for (int result : kResults) EXPECT_LE(RelativeDistance(bf16[result], reference[result]), 1.0 / 2048) << result;
  }
}

// In float, one running sum over so many tiles is off by 4e-4.
TEST_F(Winograd, TheGradientOfABiasKeepsItsDigitsHoweverManyTilesThereAre) {
  const program::Shape images = {1, 16, 800, 800};  // 40000 tiles
  OpCase op_case = {.name = "gradient"};
  op_case.operands = {{"x", images}, {"dy", images}, {"dw", {16, 16, 3, 3}, Role::kOutput}, {"db", {16}, Role::kOutput}};
  op_case.steps = {{program::ConvBackwardWeights{{3, 3, 1, 1, 1, 1, 1, 1}, 1, /*bias=*/true}, {0, 1, 2, 3}}};
  Values values = MakeValues(op_case, Data::kNormal, 1);
  const double dy = 0.1f;
  std::fill(values[1].begin(), values[1].end(), dy);
  const std::vector<double> expected(16, 800 * 800 * dy);
  const Values found = Results(op_case, CpuOptions::Kernels::kWinograd, values, program::DType::kF32, /*threads=*/1);
  EXPECT_LE(RelativeDistance(found[3], expected), 2e-6);
}

// Where a processor has AVX512_BF16 and no AMX, many channels are multiplied in bf16: y, dx and dw differ by more than the
// rounding of what is written, which the reference has, too, and by less than two more roundings of each factor.
TEST_F(Winograd, OfManyChannelsMultipliesInBf16) {
  if (cpu::Bf16WinogradProducts() != "in fp32, of many channels in bf16") GTEST_SKIP() << "skipped: " << cpu::Bf16Products();
  for (int round = 0; round < Draws(16); ++round) {
    const int64_t groups = Between(1, 2);
    Shapes of = {.inputs = 16 * groups * Between(10, 13),
                 .outputs = 16 * groups * Between(10, 13),
                 .height = Between(13, 18),
                 .width = Between(13, 18),
                 .groups = groups,
                 .top = Between(0, 2),
                 .left = Between(0, 2),
                 .images = 3};
    int threads = static_cast<int>(Between(1, 3));
    if (round == 0) {
      // 147 tiles of one thread: the last one has no other to be joined with.
      of = {.inputs = 160, .outputs = 160, .height = 13, .width = 13, .images = 3};
      threads = 1;
    } else if (round == 1) {
      // Few pairs of blocks: each thread has tiles of its own, 72 or 73 of 363.
      of = {.inputs = 32, .outputs = 288, .height = 21, .width = 21, .images = 3};
      threads = 5;
    }
    SCOPED_TRACE(testing::PrintToString(
        std::vector<int64_t>{of.inputs, of.outputs, of.height, of.width, of.groups, of.top, of.left}));
    const OpCase op_case = Convolution(of);
    const Values rounded = MakeValues(op_case, Data::kRounded, round);
    const Values reference = Results(op_case, CpuOptions::Kernels::kReference, rounded, program::DType::kBF16);
    const Values found = Results(op_case, CpuOptions::Kernels::kWinograd, rounded, program::DType::kBF16, threads);
    for (int result : {3, 5, 6}) {
      EXPECT_GE(RelativeDistance(found[result], reference[result]), 1.0 / 512) << result;
      EXPECT_LE(RelativeDistance(found[result], reference[result]), 1.0 / 160) << result;
    }
    EXPECT_LE(RelativeDistance(found[7], reference[7]), 1.0 / 2048) << "db";
    EXPECT_EQ(Results(op_case, CpuOptions::Kernels::kWinograd, rounded, program::DType::kBF16, threads), found);
  }
}

// Where a convolution is direct, y, dx and dw have the bits of oneDNN's. db is a plain sum, which may agree by chance.
TEST_F(Winograd, IsTakenWhereItPays) {
  const auto differs = [](const Shapes& of) {
    const OpCase op_case = Convolution(of);
    const Values values = MakeValues(op_case, Data::kNormal, 2);
    const Values direct = Results(op_case, CpuOptions::Kernels::kOneDnn, values),
                 winograd = Results(op_case, CpuOptions::Kernels::kWinograd, values);
    std::vector<bool> found;
    for (int result : {3, 5, 6}) found.push_back(winograd[result] != direct[result]);
    return found;
  };
  const std::vector<bool> taken = {true, true, true}, not_taken = {false, false, false};
  EXPECT_EQ(differs({16, 16, 16, 16}), taken);
  EXPECT_EQ(differs({32, 48, 15, 17}), taken);
  EXPECT_EQ(differs({32, 32, 16, 16, 5}), taken) << "a window of 5 x 5";
  EXPECT_EQ(differs({64, 32, 16, 16, 3, 2}), taken) << "two groups";
  const std::vector<bool> but_backward = {true, false, true};  // dx of a stride of 4 is direct
  EXPECT_EQ(differs({.inputs = 3, .outputs = 32, .height = 67, .width = 67, .size = 11, .stride = 4}), but_backward);
  EXPECT_EQ(differs({.inputs = 3, .outputs = 32, .height = 67, .width = 67, .size = 8, .stride = 4}), not_taken)
      << "2 x 2 squares";
  EXPECT_EQ(differs({.inputs = 4, .outputs = 32, .height = 67, .width = 67, .size = 11, .groups = 2, .stride = 4}),
            not_taken)
      << "two groups of squares";
  EXPECT_EQ(differs({.inputs = 4, .outputs = 32, .height = 67, .width = 67, .size = 5, .stride = 2}), not_taken)
      << "a stride of 2";
  EXPECT_EQ(differs({32, 32, 16, 16, 3, 4}), not_taken) << "groups that do not fill blocks";
  EXPECT_EQ(differs({32, 32, 16, 16, 7}), not_taken) << "a window of 7 x 7";
  EXPECT_EQ(differs({24, 32, 16, 16}), not_taken) << "channels that do not fill blocks";
  EXPECT_EQ(differs({16, 16, 8, 8}), not_taken) << "eight tiles, fewer than transformed weights are worth";
  EXPECT_EQ(differs({16, 16, 1, 128}), not_taken) << "tiles three quarters of which lie outside";
}

}  // namespace
}  // namespace colonnade::conformance
