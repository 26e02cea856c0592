// That the comparison of a plan with one device says no when it should: plans are given Programs that are wrong in one
// thing.

#include "tools/verify_plan.h"

#include <limits>
#include <string>
#include <variant>

#include "data/dataset.h"
#include "data/sample_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

// What is done to the Programs of the plan; the single device's are right.
using Spoil = std::function<void(program::Program&, const partition::LowerOptions&)>;

absl::StatusOr<VerifyReport> Verify(const Spoil& spoil, double learning_rate = 0.03, bool bf16 = false) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = 16});
  data::SampleStream digits = *data::SampleStream::Create(*data::OpenDataset("digits", data::SplitOf::kTrain, {}), {});
  VerifyOptions options{.learning_rate = {.base = learning_rate}, .lower = {.global_batch = 16, .weight_decay = 5e-4}};
  options.bf16 = bf16;
  if (bf16) {
    options.make_backend = [](int devices) {
      return cpu::MakeCpuBackend(
          {.devices = devices, .threads_per_device = 1, .kernels = cpu::CpuOptions::Kernels::kReference});
    };
  }
  options.make_program = [&spoil](const layers::LayerGraph& g, const partition::Plan& p,
                                  const partition::LowerOptions& lower) {
    absl::StatusOr<program::Program> program = partition::Lower(g, p, lower);
    if (program.ok() && p.mesh.device_count() > 1 && spoil) spoil(*program, lower);
    return program;
  };
  return VerifyPlan(graph, plan, digits, options);
}

// Calls `change` with every operation of the kind `T`.
template <class T, class Change>
void ForEach(program::Program& program, Change change) {
  for (program::Task& task : program.tasks) {
    auto* compute = std::get_if<program::Compute>(&task.what);
    if (compute == nullptr) continue;
    if (auto* op = std::get_if<T>(&compute->op)) change(*op);
  }
}

TEST(VerifyPlan, AgreesWhereNothingIsWrong) {
  absl::StatusOr<VerifyReport> report = Verify(nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok);
  EXPECT_TRUE(report->training_program_agrees);
  EXPECT_EQ(report->steps, 3);
}

TEST(VerifyPlan, InBf16AgreesWhereNothingIsWrongAndFindsWhatIs) {
  absl::StatusOr<VerifyReport> report = Verify(nullptr, 0.03, /*bf16=*/true);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error;
  const auto spoil = [](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 1000; });
  };
  report = Verify(spoil, 0.03, /*bf16=*/true);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
}

TEST(VerifyPlan, FindsMasksOfAnotherStream) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::Dropout>(program, [](program::Dropout& op) { op.stream += 100; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_GT(report->error.loss, report->tolerance.loss);
  EXPECT_GT(report->error.gradient, report->tolerance.gradient);
}

TEST(VerifyPlan, FindsAnUpdateThatIsWrongWhereGradientsAreRight) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 2; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.loss, report->tolerance.loss);
  EXPECT_LE(report->error.gradient, report->tolerance.gradient);
  EXPECT_GT(report->error.parameter, report->tolerance.parameter);
  EXPECT_THAT(report->worst_tensor, HasSubstr("change of "));
}

TEST(VerifyPlan, FindsATrainingProgramThatDiffersFromTheOneThatShowsGradients) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions& lower) {
    if (lower.expose_gradients) return;
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 1.01; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training_program_agrees);
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.parameter, report->tolerance.parameter);
}

TEST(VerifyPlan, WeightsThatOverflowAreNotFiniteRatherThanEqual) {
  const absl::Status status = Verify(nullptr, std::numeric_limits<double>::max()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
}

}  // namespace
}  // namespace colonnade::tools
