// Convolutions by Winograd's algorithm: close to the oracle, the same twice, and taken where they pay and nowhere else.
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "op_case_run.h"
#include "op_cases.h"
#include "tests/sanitized.h"

namespace colonnade::conformance {
namespace {

using cpu::CpuOptions;

// y and both gradients of a convolution of `size` x `size`.
OpCase Convolution(int64_t channels, int64_t size) {
  const int64_t n = 2, extent = 9;
  const program::Window window = {size, size, 1, 1, size / 2, size / 2, size / 2, size / 2};
  const program::Shape image = {n, channels, extent, extent}, weight = {channels, channels, size, size};
  OpCase made = {.name = "conv"};
  made.operands = {{"x", image, Role::kInput},   {"w", weight, Role::kParameter}, {"b", {channels}, Role::kParameter},
                   {"y", image, Role::kOutput},  {"dy", image, Role::kInput},     {"dx", image, Role::kOutput},
                   {"dw", weight, Role::kOutput}};
  made.steps = {{program::ConvForward{window, 1, /*bias=*/true, /*relu=*/true}, {0, 1, 2, 3}},
                {program::ConvBackwardData{window, 1}, {4, 1, 5}},
                {program::ConvBackwardWeights{window, 1, /*bias=*/false}, {0, 4, 6}}};
  return made;
}

constexpr int kY = 3, kDx = 5, kDw = 6;

Values Results(const OpCase& op_case, CpuOptions::Kernels kernels, const Values& values) {
  auto backend = cpu::MakeCpuBackend({.threads_per_device = kThreadSanitized ? 1 : 2, .kernels = kernels});
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto loaded = LoadedCase::Load(**backend, op_case, program::DType::kF32, Home::kStep);
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
    EXPECT_THAT(backend.status().message(), ::testing::HasSubstr("has no Winograd convolutions for this processor"));
    GTEST_SKIP() << backend.status().message();
  }
};

TEST_F(Winograd, IsCloseToTheOracleAndTheSameTwice) {
  const OpCase op_case = Convolution(64, 3);
  const Values values = MakeValues(op_case, Data::kNormal, 1), expected = *RunOracle(op_case, values);
  const Values first = Results(op_case, CpuOptions::Kernels::kWinograd, values);
  for (int result : {kY, kDx, kDw}) EXPECT_LE(RelativeDistance(first[result], expected[result]), 1e-5) << result;
  EXPECT_EQ(Results(op_case, CpuOptions::Kernels::kWinograd, values), first);
}

// Where both are direct they give equal bits.
TEST_F(Winograd, IsTakenWhereItPays) {
  const auto differs = [](int64_t channels, int64_t size) {
    const OpCase op_case = Convolution(channels, size);
    const Values values = MakeValues(op_case, Data::kNormal, 2);
    const Values direct = Results(op_case, CpuOptions::Kernels::kOneDnn, values),
                 winograd = Results(op_case, CpuOptions::Kernels::kWinograd, values);
    std::vector<bool> found;
    for (int result : {kY, kDx, kDw}) found.push_back(winograd[result] != direct[result]);
    return found;
  };
  EXPECT_EQ(differs(32, 3), std::vector<bool>({true, true, true}));
  EXPECT_EQ(differs(16, 3), std::vector<bool>({false, false, true}));
  EXPECT_EQ(differs(32, 5), std::vector<bool>({false, false, false}));
}

}  // namespace
}  // namespace colonnade::conformance
