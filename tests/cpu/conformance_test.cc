// Every OpCase: the oracle's gradients against finite differences, and the CPU backend against the oracle.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cpu/backend.h"
#include "gtest/gtest.h"
#include "op_case_run.h"
#include "op_cases.h"
#include "program/formulas/philox.h"
#include "program/op_traits.h"
#include "tests/sanitized.h"

namespace colonnade::conformance {
namespace {

using cpu::CpuOptions;
using program::DType;

constexpr Home kHomes[] = {Home::kPersistent, Home::kStep, Home::kBox};

// ThreadSanitizer does not know OpenMP's teams.
constexpr int kTwo = kThreadSanitized ? 1 : 2;

// The layouts and the numbers of threads that f32 kernels run in.
constexpr struct {
  Home home;
  int threads;
} kRuns[] = {{Home::kPersistent, 1}, {Home::kStep, 1}, {Home::kStep, kTwo}, {Home::kBox, kTwo}};

constexpr CpuOptions::Kernels kOneDnn = CpuOptions::Kernels::kOneDnn, kReference = CpuOptions::Kernels::kReference;

// A CPU backend of one device, with one case.
class OnCpu {
 public:
  OnCpu(const OpCase& op_case, DType dtype, Home home, CpuOptions options) {
    auto backend = cpu::MakeCpuBackend(options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto loaded = LoadedCase::Load(*backend_, op_case, dtype, home);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) loaded_ = *std::move(loaded);
  }

  absl::StatusOr<Values> TryRun(const Values& values) {
    return loaded_ == nullptr ? absl::InternalError("not loaded") : loaded_->Run(values);
  }
  Values Run(const Values& values) {
    auto results = TryRun(values);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : Values(values.size());
  }

 private:
  std::unique_ptr<engine::Backend> backend_;
  std::unique_ptr<LoadedCase> loaded_;
};

Values Oracle(const OpCase& op_case, const Values& values) {
  const auto results = RunOracle(op_case, values);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *results : Values(values.size());
}

// Calls check(values, those expected) for each operand that is not the backend's own.
template <class Check>
void ForEachResult(const OpCase& op_case, const Values& results, const Values& expected, Check check) {
  for (size_t i = 0; i < op_case.operands.size(); ++i) {
    SCOPED_TRACE(op_case.operands[i].name);
    if (op_case.operands[i].role != Role::kSaved) check(results[i], expected[i]);
  }
}

// Names the first element that differs, where a whole tensor would fill pages.
void ExpectEqualBits(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  const auto [value, other] = std::mismatch(values.begin(), values.end(), expected.begin());
  if (value == values.end()) return;
  ADD_FAILURE() << "element " << value - values.begin() << " of " << values.size() << ": expected " << *other << ", found "
                << *value;
}

class OpCases : public testing::TestWithParam<OpCase> {};

// ---- The oracle against finite differences.

double Objective(const OpCase& op_case, const Values& values) {
  const GradientCheck& check = *op_case.gradient_check;
  const auto results = RunOracle(op_case, values, check.forward_steps);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return 0;
  const std::vector<double>& y = (*results)[check.y];
  if (!check.dy) return y[program::Metric::kLossSum] / y[program::Metric::kLabelCount];
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * values[*check.dy][i];
  return sum;
}

// The central difference along `direction` from operand `of`. In double its error is about 1e-10 of the values.
double Difference(const OpCase& op_case, const Values& values, int of, const std::vector<double>& direction, double step) {
  const auto at = [&](double distance) {
    Values moved = values;
    for (size_t i = 0; i < direction.size(); ++i) moved[of][i] += distance * direction[i];
    return Objective(op_case, moved);
  };
  return (at(step) - at(-step)) / (2 * step);
}

// Along one random direction, which sees every element, and along some axes, which say where an error is.
TEST_P(OpCases, GradientsOfTheOracleAreFiniteDifferences) {
  const OpCase& op_case = GetParam();
  if (!op_case.gradient_check) GTEST_SKIP() << "no gradient";
  const Values values = MakeValues(op_case, Data::kNormal, 1), results = Oracle(op_case, values);
  for (const auto& [of, gradient] : op_case.gradient_check->gradients) {
    SCOPED_TRACE(op_case.operands[gradient].name);
    const std::vector<double>& derivative = results[gradient];
    double square = 0;
    for (double d : derivative) square += d * d;
    const double norm = std::sqrt(square), bound = 1e-7 * std::max(norm, 1e-3);
    const auto count = static_cast<int64_t>(derivative.size());
    std::vector<double> direction(count);
    for (int64_t i = 0; i < count; ++i) direction[i] = program::Gaussian(2, program::RandomPurpose::kSyntheticData, 0, 0, i);
    double expected = 0;
    for (int64_t i = 0; i < count; ++i) expected += direction[i] * derivative[i];
    EXPECT_NEAR(Difference(op_case, values, of, direction, 1e-6), expected, bound);

    constexpr int64_t kAxes = kSanitized ? 2 : 12;
    for (int64_t axis = 0; axis < std::min(kAxes, count); ++axis) {
      const int64_t i = count <= kAxes ? axis : (axis * count + count / 2) / kAxes;
      std::vector<double> unit(count);
      unit[i] = 1;
      EXPECT_NEAR(Difference(op_case, values, of, unit, 1e-5), derivative[i], bound) << "element " << i;
    }
  }
}

// ---- The backend against the oracle.

TEST_P(OpCases, ReferenceKernelsOfTheBackendAreTheOracle) {
  const OpCase& op_case = GetParam();
  const Values values = MakeValues(op_case, Data::kNormal, 3), expected = Oracle(op_case, values);
  for (Home home : kHomes) {
    SCOPED_TRACE(Name(home));
    OnCpu doubles(op_case, DType::kF64, home, {.threads_per_device = 1, .kernels = kReference});
    ForEachResult(op_case, doubles.Run(values), expected, [](const auto& a, const auto& b) { ExpectEqualBits(a, b); });
    OnCpu floats(op_case, DType::kF32, home, {.threads_per_device = 1, .kernels = kReference});
    // Every op rounds its results to f32 once: 6e-8 each, and no case is deeper than four.
    ForEachResult(op_case, floats.Run(values), expected,
                  [](const auto& a, const auto& b) { EXPECT_LE(RelativeDistance(a, b), 1e-6); });
  }
}

// Summands stay f32, whose rounding is 6e-8.
TEST_P(OpCases, InBf16ReferenceKernelsRoundWhatTheyWriteButForSummands) {
  const OpCase& op_case = GetParam();
  const std::optional<double> tolerance = Bf16Tolerance(op_case);
  if (!tolerance.has_value()) GTEST_SKIP() << "an update of what a layer reads";
  const Values values = MakeValues(op_case, Data::kRounded, 6), expected = Oracle(op_case, values);
  for (Home home : kHomes) {
    SCOPED_TRACE(Name(home));
    OnCpu bf16(op_case, DType::kBF16, home, {.threads_per_device = 1, .kernels = kReference});
    const Values results = bf16.Run(values);
    for (size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(op_case.operands[i].name);
      if (op_case.operands[i].role == Role::kSaved) continue;
      EXPECT_LE(RelativeDistance(results[i], expected[i]), op_case.operands[i].in_master_type ? 1e-6 : *tolerance);
    }
  }
}

TEST_P(OpCases, IntegersGiveEqualBits) {
  const OpCase& op_case = GetParam();
  if (!op_case.exact) GTEST_SKIP() << "not exact on integers";
  const Values values = MakeValues(op_case, Data::kIntegers, 4), expected = Oracle(op_case, values);
  for (const auto& [home, threads] : kRuns) {
    SCOPED_TRACE(absl::StrCat(Name(home), ", threads ", threads));
    OnCpu floats(op_case, DType::kF32, home, {.threads_per_device = threads, .kernels = kOneDnn});
    ForEachResult(op_case, floats.Run(values), expected, [](const auto& a, const auto& b) { ExpectEqualBits(a, b); });
  }
}

TEST_P(OpCases, NormalNumbersGiveCloseResultsAndTwiceTheSame) {
  const OpCase& op_case = GetParam();
  const Values values = MakeValues(op_case, Data::kNormal, 5), expected = Oracle(op_case, values);
  for (const auto& [home, threads] : kRuns) {
    SCOPED_TRACE(absl::StrCat(Name(home), ", threads ", threads));
    OnCpu floats(op_case, DType::kF32, home, {.threads_per_device = threads, .kernels = kOneDnn});
    const Values first = floats.Run(values);
    ForEachResult(op_case, first, expected,
                  [&](const auto& a, const auto& b) { EXPECT_LE(RelativeDistance(a, b), op_case.tolerance); });
    ForEachResult(op_case, floats.Run(values), first, [](const auto& a, const auto& b) { ExpectEqualBits(a, b); });
  }
}

// What is in bf16 is rounded where the oracle's is, and once: a few numbers fall on the other side.
TEST_P(OpCases, InBf16KernelsRoundWhereTheReferenceDoes) {
  const OpCase& op_case = GetParam();
  if (!Bf16Tolerance(op_case).has_value()) GTEST_SKIP() << "an update of what a layer reads";
  const Values values = MakeValues(op_case, Data::kRounded, 7);
  OnCpu reference(op_case, DType::kBF16, Home::kStep, {.threads_per_device = 1, .kernels = kReference});
  const Values expected = reference.Run(values);
  for (const auto& [home, threads] : kRuns) {
    SCOPED_TRACE(absl::StrCat(Name(home), ", threads ", threads));
    OnCpu bf16(op_case, DType::kBF16, home, {.threads_per_device = threads, .kernels = kOneDnn});
    const Values first = bf16.Run(values);
    ForEachResult(op_case, first, expected,
                  [&](const auto& a, const auto& b) { EXPECT_LE(RelativeDistance(a, b), 1.0 / 2048); });
    ForEachResult(op_case, bf16.Run(values), first, [](const auto& a, const auto& b) { ExpectEqualBits(a, b); });
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpCases, testing::ValuesIn(AllOpCases()),
                         [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; });

TEST(OpCaseList, NamesAreUnique) {
  std::vector<std::string> names;
  for (const OpCase& op_case : AllOpCases()) names.push_back(op_case.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(OpCaseList, HasEveryOp) {
  std::set<std::string> tested = {"load", "store"};  // of the host's memory: tests/cpu/backend_test.cc
  for (const OpCase& op_case : AllOpCases()) {
    for (const Step& step : op_case.steps) tested.insert(program::Name(step.op));
  }
  for (const program::Op& op : program::AllOps()) {
    EXPECT_TRUE(tested.contains(program::Name(op))) << program::Name(op) << " has no OpCase";
  }
}

// ---- Values that are no numbers, and labels that are no classes.

OpCase CaseNamed(const std::string& name) {
  for (OpCase& op_case : AllOpCases()) {
    if (op_case.name == name) return std::move(op_case);
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

struct Kernels {
  DType dtype;
  CpuOptions::Kernels kernels;
};
constexpr Kernels kKernels[] = {{DType::kF32, kOneDnn}, {DType::kF64, kReference}, {DType::kF32, kReference}};

TEST(Conformance, CheckFiniteFindsEveryPlace) {
  const OpCase op_case = CaseNamed("check_finite_vector");
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  for (const Kernels& kernels : kKernels) {
    OnCpu on_cpu(op_case, kernels.dtype, Home::kStep, {.threads_per_device = kTwo, .kernels = kernels.kernels});
    const Values finite = {std::vector<double>(33, -std::numeric_limits<float>::max()), {0}};
    EXPECT_EQ(on_cpu.Run(finite)[1], std::vector<double>{1});
    for (double bad : {kInfinity, -kInfinity, kNan}) {
      for (int i = 0; i < 33; ++i) {
        Values values = finite;
        values[0][i] = bad;
        EXPECT_EQ(on_cpu.Run(values)[1], std::vector<double>{0}) << bad << " at " << i;
      }
    }
  }
}

// A network that has diverged must not look as if it were always right.
TEST(Conformance, LogitsThatAreNoNumbersAreNoHits) {
  const OpCase op_case = CaseNamed("softmax_1x10");
  for (const Kernels& kernels : kKernels) {
    OnCpu on_cpu(op_case, kernels.dtype, Home::kStep, {.threads_per_device = 1, .kernels = kernels.kernels});
    Values values = MakeValues(op_case, Data::kNormal, 1);
    values[0].assign(10, std::numeric_limits<double>::quiet_NaN());  // the logits
    const std::vector<double> metrics = on_cpu.Run(values).back();
    EXPECT_TRUE(std::isnan(metrics[program::Metric::kLossSum]));
    EXPECT_EQ(metrics[program::Metric::kTop1Hits], 0);
    EXPECT_EQ(metrics[program::Metric::kTop5Hits], 0);
    EXPECT_EQ(metrics[program::Metric::kLabelCount], 1);
  }
}

// By what forward left, apart from the sums or with them, or by what is worked out anew.
TEST(Conformance, AReluBehindANormalisationMasksItsGradientByTheSameBitsInEachWay) {
  for (int channels : {1, 3, 16, 17, 31, 32, 64}) {
    const OpCase op_case = CaseNamed(absl::StrCat("batch_norm_in_each_way_", channels, "_channels"));
    const auto index = [&](const std::string& name) {
      return std::find_if(op_case.operands.begin(), op_case.operands.end(),
                          [&](const Operand& o) { return o.name == name; }) -
             op_case.operands.begin();
    };
    for (const auto& [kernels, dtype] :
         {std::pair(kOneDnn, DType::kF32), {kReference, DType::kF32}, {kReference, DType::kBF16}}) {
      for (Data data : {Data::kIntegers, Data::kNormal}) {  // of integers, many results are zero or next to it
        OnCpu on_cpu(op_case, dtype, Home::kStep, {.threads_per_device = 1, .kernels = kernels});
        const Values results = on_cpu.Run(MakeValues(op_case, data, 1));
        for (const char* same :
             {"dsums dsums2", "dw dw2", "db db2", "dx dx2", "dz dz3", "dsums dsums3", "dw dw3", "db db3"}) {
          const std::vector<std::string> names = absl::StrSplit(same, ' ');
          EXPECT_EQ(results[index(names[0])], results[index(names[1])]) << op_case.name << " " << same;
        }
      }
    }
  }
}

TEST(Conformance, LargeLogitsDoNotOverflow) {
  const OpCase op_case = CaseNamed("softmax_1x10");
  Values values = MakeValues(op_case, Data::kIntegers, 1);
  for (double& logit : values[0]) logit *= 1e4;
  const Values expected = Oracle(op_case, values);
  for (const Kernels& kernels : kKernels) {
    OnCpu on_cpu(op_case, kernels.dtype, Home::kStep, {.threads_per_device = 1, .kernels = kernels.kernels});
    ForEachResult(op_case, on_cpu.Run(values), expected,
                  [](const auto& a, const auto& b) { EXPECT_LE(RelativeDistance(a, b), 1e-6); });
  }
}

// s is about 10^26 here, and s·√s more than a float holds.
TEST(Conformance, LargeNumbersAreNormalisedAcrossChannels) {
  for (const char* name : {"lrn_31", "lrn_32"}) {
    const OpCase op_case = CaseNamed(name);
    Values values = MakeValues(op_case, Data::kNormal, 1);
    for (double& x : values[0]) x *= 1e13;
    const Values expected = Oracle(op_case, values);
    OnCpu on_cpu(op_case, DType::kF32, Home::kStep, {.threads_per_device = 1, .kernels = kOneDnn});
    EXPECT_LE(RelativeDistance(on_cpu.Run(values)[1], expected[1]), 1e-6) << name;
  }
}

TEST(Conformance, ALabelBeyondTheClassesIsAnError) {
  const OpCase op_case = CaseNamed("softmax_7x2");
  for (const Kernels& kernels : kKernels) {
    OnCpu on_cpu(op_case, kernels.dtype, Home::kStep, {.threads_per_device = 1, .kernels = kernels.kernels});
    Values values = MakeValues(op_case, Data::kNormal, 1);
    values[1][3] = 2;
    const absl::Status status = on_cpu.TryRun(values).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "sample 3")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "2")) << status;
  }
}

}  // namespace
}  // namespace colonnade::conformance
