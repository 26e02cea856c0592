// Every OpCase on the CUDA backend, whose calls the host runs (host_calls.h), against the oracle.
#include <algorithm>
#include <memory>
#include <string>

#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "tests/cpu/op_case_run.h"
#include "tests/cpu/op_cases.h"

namespace colonnade::conformance {
namespace {

class CudaOpCases : public testing::TestWithParam<OpCase> {
 protected:
  void Compare(Data data, uint64_t seed, program::DType dtype, double tolerance, const cuda::HostCallsOptions& host = {}) {
    const OpCase& op_case = GetParam();
    const Values values = MakeValues(op_case, data, seed);
    const absl::StatusOr<Values> expected = RunOracle(op_case, values);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (Home home : {Home::kPersistent, Home::kStep, Home::kBox}) {
      SCOPED_TRACE(Name(home));
      auto backend = cuda::MakeCudaBackend({}, std::make_unique<cuda::HostCalls>(host));
      ASSERT_TRUE(backend.ok()) << backend.status();
      auto loaded = LoadedCase::Load(**backend, op_case, dtype, home);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      for (int step = 0; step < 2; ++step) {  // both slots
        const absl::StatusOr<Values> results = (*loaded)->Run(values);
        ASSERT_TRUE(results.ok()) << results.status();
        for (size_t i = 0; i < op_case.operands.size(); ++i) {
          if (op_case.operands[i].role == Role::kSaved) continue;
          SCOPED_TRACE(op_case.operands[i].name);
          if (data == Data::kIntegers) {
            EXPECT_EQ((*results)[i], (*expected)[i]);
          } else {
            const bool is_rounded = dtype == program::DType::kBF16 && !op_case.operands[i].in_master_type;
            EXPECT_LE(RelativeDistance((*results)[i], (*expected)[i]), is_rounded ? tolerance : op_case.tolerance);
          }
        }
      }
    }
  }
};

TEST_P(CudaOpCases, IntegersGiveEqualBits) {
  if (!GetParam().exact) GTEST_SKIP() << "not exact on integers";
  Compare(Data::kIntegers, 4, program::DType::kF32, 0);
}

TEST_P(CudaOpCases, NormalNumbersGiveCloseResults) { Compare(Data::kNormal, 5, program::DType::kF32, GetParam().tolerance); }

// Where cuDNN has no algorithm for a convolution with its bias and ReLU, or cuBLASLt none for such a product.
TEST_P(CudaOpCases, WhatIsNotFusedComesAfter) {
  const bool multiplies = GetParam().name.starts_with("conv") || GetParam().name.starts_with("fully_connected");
  if (!multiplies) GTEST_SKIP() << "no product";
  Compare(Data::kNormal, 5, program::DType::kF32, GetParam().tolerance, {.fuses = false});
}

TEST_P(CudaOpCases, RoundedNumbersInBf16) {
  const std::optional<double> tolerance = Bf16Tolerance(GetParam());
  if (!tolerance.has_value()) GTEST_SKIP() << "an update of what a layer reads";
  Compare(Data::kRounded, 6, program::DType::kBF16, *tolerance);
}

// Where cuDNN has no algorithm that writes f32 from factors in bf16.
TEST_P(CudaOpCases, SummandsInF32ComeOfWidenedFactors) {
  const OpCase& op_case = GetParam();
  const bool makes_summands = std::any_of(op_case.operands.begin(), op_case.operands.end(),
                                          [](const Operand& operand) { return operand.in_master_type; });
  if (!makes_summands) GTEST_SKIP() << "no summands";
  Compare(Data::kRounded, 6, program::DType::kBF16, Bf16Tolerance(op_case).value_or(0), {.fuses = false});
}

INSTANTIATE_TEST_SUITE_P(All, CudaOpCases, testing::ValuesIn(AllOpCases()),
                         [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; });

}  // namespace
}  // namespace colonnade::conformance
