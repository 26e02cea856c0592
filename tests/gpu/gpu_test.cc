// On a GPU: every OpCase against the oracle, and networks under plans on 1, 2 and 4 devices that share the GPUs at hand.
#include <memory>
#include <string>

#include "cli/session/devices.h"
#include "cli/session/session.h"
#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "tests/cpu/op_case_run.h"
#include "tests/cpu/op_cases.h"
#include "tests/partition/random_run.h"
#include "tools/verify_plan.h"

namespace colonnade {
namespace {

using cuda::Precision;

// Opened once: that makes handles of libraries, and plans of convolutions are kept.
const absl::StatusOr<std::shared_ptr<cuda::Calls>>& SharedCalls() {
  static const auto& calls = *new absl::StatusOr<std::shared_ptr<cuda::Calls>>(cuda::OpenCuda());
  return calls;
}

absl::StatusOr<std::unique_ptr<engine::Backend>> OnGpus(const cuda::CudaOptions& options) {
  if (!SharedCalls().ok()) return SharedCalls().status();
  return cuda::MakeCudaBackend(options, *SharedCalls());
}

// A GPU that is there and cannot be opened is no reason to skip.
#define COLONNADE_NEED_GPU()                                                                \
  if (absl::IsUnavailable(SharedCalls().status()))                                          \
    GTEST_SKIP() << "skipped: no CUDA device (" << SharedCalls().status().message() << ")"; \
  ASSERT_TRUE(SharedCalls().ok()) << SharedCalls().status()

class GpuOpCases : public testing::TestWithParam<conformance::OpCase> {
 protected:
  void Compare(conformance::Data data, Precision precision, double tolerance, program::DType dtype = program::DType::kF32) {
    using conformance::Home;
    const conformance::OpCase& op_case = GetParam();
    const conformance::Values values = MakeValues(op_case, data, 4);
    const absl::StatusOr<conformance::Values> expected = RunOracle(op_case, values);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (Home home : {Home::kPersistent, Home::kStep, Home::kBox}) {
      SCOPED_TRACE(Name(home));
      auto backend = OnGpus({.precision = precision});
      ASSERT_TRUE(backend.ok()) << backend.status();
      auto loaded = conformance::LoadedCase::Load(**backend, op_case, dtype, home);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      for (int step = 0; step < 2; ++step) {  // both slots
        const absl::StatusOr<conformance::Values> results = (*loaded)->Run(values);
        ASSERT_TRUE(results.ok()) << results.status();
        for (size_t i = 0; i < op_case.operands.size(); ++i) {
          if (op_case.operands[i].role == conformance::Role::kSaved) continue;
          SCOPED_TRACE(op_case.operands[i].name);
          EXPECT_LE(conformance::RelativeDistance((*results)[i], (*expected)[i]), tolerance);
        }
      }
    }
  }
};

TEST_P(GpuOpCases, IntegersGiveEqualNumbers) {
  COLONNADE_NEED_GPU();
  if (!GetParam().exact) GTEST_SKIP() << "not exact on integers";
  Compare(conformance::Data::kIntegers, Precision::kF32, 0);
}
TEST_P(GpuOpCases, NormalNumbersInF32) {
  COLONNADE_NEED_GPU();
  Compare(conformance::Data::kNormal, Precision::kF32, GetParam().tolerance);
}
// Factors are rounded to 2^-11 each.
TEST_P(GpuOpCases, NormalNumbersInTf32) {
  COLONNADE_NEED_GPU();
  Compare(conformance::Data::kNormal, Precision::kTf32, 5e-3);
}

TEST_P(GpuOpCases, RoundedNumbersInBf16) {
  COLONNADE_NEED_GPU();
  const std::optional<double> tolerance = Bf16Tolerance(GetParam());
  if (!tolerance.has_value()) GTEST_SKIP() << "an update of what a layer reads";
  Compare(conformance::Data::kRounded, Precision::kF32, *tolerance, program::DType::kBF16);
}

INSTANTIATE_TEST_SUITE_P(All, GpuOpCases, testing::ValuesIn(conformance::AllOpCases()),
                         [](const testing::TestParamInfo<conformance::OpCase>& info) { return info.param.name; });

TEST(Gpu, RandomNetworksUnderRandomPlansComputeWhatOneDeviceOfTheCpuComputes) {
  COLONNADE_NEED_GPU();
  using namespace partition;
  const BackendMaker reference = [](int devices) {
    return cpu::MakeCpuBackend({.devices = devices, .kernels = cpu::CpuOptions::Kernels::kReference});
  };
  Random random(9);
  for (int i = 0; i < 40; ++i) {
    const bool exact = i % 2 == 1;
    const Drawn drawn = DrawCase(random, exact);
    LowerOptions options{.global_batch = drawn.batch,
                         .dtype = program::DType::kF64,
                         .update = {.optimizer = program::Sgd{.momentum = 0.5}},
                         .expose_gradients = true};
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, exact);
    Tensors parameters;
    const auto one = RunSteps(drawn.network.graph, SinglePlan(drawn.network.graph), options, reference, batch, nullptr,
                              random, exact, 1, &parameters);
    ASSERT_TRUE(one.ok()) << one.status();
    options.dtype = program::DType::kF32;
    const auto many = RunSteps(
        drawn.network.graph, drawn.plan, options, [](int devices) { return OnGpus({.devices = devices}); }, batch,
        &parameters, random, exact, 1, nullptr);
    ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
    for (const auto& [name, gradient] : one->gradients) {
      ASSERT_LE(RelativeDistance(many->gradients.at(name), gradient), exact ? 0 : 1e-3) << name << "\n"
                                                                                        << Describe(drawn, i);
    }
  }
}

struct ZooCase {
  std::string model, plan;
  int devices = 1;
  std::string dtype = "fp32";
  double width = 1;
};
class GpuZoo : public testing::TestWithParam<ZooCase> {
 protected:
  void Verify(const cuda::CudaOptions& options) const;
};

void GpuZoo::Verify(const cuda::CudaOptions& options) const {
  const ZooCase& zoo = GetParam();
  const cli::SessionFlags flags{.network = {.model = zoo.model, .width = zoo.width},
                                .plan = {.batch = 16, .devices = zoo.devices, .name = zoo.plan},
                                .backend = {.dtype = zoo.dtype}};
  auto session = cli::OpenSession(flags, nullptr);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto samples = cli::OpenSamples(flags, data::SplitOf::kTrain);
  ASSERT_TRUE(samples.ok()) << samples.status();
  const auto stream = cli::OpenStream(flags, *session, *samples, data::SplitOf::kTrain);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const auto report = tools::VerifyPlan(session->graph, session->plan, **stream,
                                        {.steps = 6,  // two task by task, then captured, then replayed: each for both slots
                                         .bf16 = zoo.dtype == "bf16",
                                         .tf32 = zoo.dtype == "tf32",
                                         .make_backend =
                                             [&](int devices) {
                                               cuda::CudaOptions own = options;
                                               own.devices = devices;
                                               own.precision = zoo.dtype == "tf32" ? Precision::kTf32 : Precision::kF32;
                                               return OnGpus(own);
                                             },
                                         .learning_rate = {.base = 0.01},
                                         .lower = cli::LowerOptionsOf(flags, *session, program::Mode::kTrain)});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << ": " << report->worst_error;
}

// Devices share the GPUs at hand. A step that is no graph is an error.
TEST_P(GpuZoo, APlanComputesWhatOneDeviceComputesByGraphsAndCopiesBetweenPeers) {
  COLONNADE_NEED_GPU();
  Verify({.collectives = cuda::Collectives::kPeer, .graphs = cuda::Graphs::kOn});
}

TEST_P(GpuZoo, APlanComputesWhatOneDeviceComputesTaskByTask) {
  COLONNADE_NEED_GPU();
  Verify({.collectives = cuda::Collectives::kPeer, .graphs = cuda::Graphs::kOff});
}

TEST_P(GpuZoo, APlanComputesWhatOneDeviceComputesByNccl) {
  COLONNADE_NEED_GPU();
  const int devices = GetParam().devices;
  if (devices == 1 || devices > (*SharedCalls())->gpu_count() || !(*SharedCalls())->HasNccl().ok()) {
    GTEST_SKIP() << "skipped: NCCL, and a GPU for each device of several, are not there";
  }
  Verify({.collectives = cuda::Collectives::kNccl});
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuZoo,
    testing::Values(ZooCase{"two_column", "single", 1}, ZooCase{"two_column", "model", 2},
                    ZooCase{"two_column", "hybrid", 4}, ZooCase{"lenet", "data", 2}, ZooCase{"lenet", "owt", 4},
                    ZooCase{"alexnet2012", "model", 2}, ZooCase{"alexnet2012", "hybrid", 4},
                    ZooCase{"alexnet2012", "owt", 4}, ZooCase{"alexnet", "data", 2}, ZooCase{"alexnet", "hybrid", 4},
                    ZooCase{"two_column", "hybrid", 4, "bf16"}, ZooCase{"lenet", "owt", 4, "bf16"},
                    ZooCase{"alexnet", "hybrid", 4, "tf32"}, ZooCase{"resnet20", "single", 1, "fp32", 0.5},
                    ZooCase{"resnet20", "data", 2, "fp32", 0.5}, ZooCase{"resnet20", "hybrid", 4, "fp32", 0.5},
                    ZooCase{"resnet20", "data", 2, "bf16", 0.5}),
    [](const auto& info) {
      return info.param.model + "_" + info.param.plan + "_" + std::to_string(info.param.devices) + "_" + info.param.dtype;
    });

}  // namespace
}  // namespace colonnade
