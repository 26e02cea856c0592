// Profiles that are fitted to measured steps: on Programs whose step one can compute by hand.
#include "tools/fit.h"

#include <string>

#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/moves_bytes.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

constexpr double kExact = 1e-9;

engine::Machine WithSteps(int in_flight, int devices = 1) {
  engine::Machine machine = CertainMachine(devices);
  machine.steps_in_flight = in_flight;
  return machine;
}

MeasuredStep Measured(const program::RepresentativeProgram& program, double seconds, const std::string& name = "1") {
  return {name, "lenet", 64, &program, seconds};
}

std::string ErrorOf(engine::Machine machine, const std::vector<MeasuredStep>& steps) {
  const std::string before = engine::MachineToJson(machine);
  const absl::StatusOr<Fit> fit = FitTo(machine, steps);
  EXPECT_EQ(fit.status().code(), absl::StatusCode::kFailedPrecondition) << fit.status();
  EXPECT_EQ(engine::MachineToJson(machine), before) << "a machine that cannot be fitted stays as it was";
  return std::string(fit.status().message());
}

TEST(FitTo, WhatIsLeftOfAStepIsTheHosts) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);  // 4 ms
  engine::Machine machine = WithSteps(1);
  machine.step_sec.value = 0.5;  // of an earlier fit
  const absl::StatusOr<Fit> fit = FitTo(machine, {Measured(program, 0.010)});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->step_sec, 0.006, kExact);
  EXPECT_EQ(fit->kernel_factor, 1);
  EXPECT_NE(machine.memory_bytes_per_sec.origin, engine::Origin::kFitted);
  EXPECT_EQ(machine.step_sec.value, fit->step_sec);
  EXPECT_EQ(machine.step_sec.origin, engine::Origin::kFitted);
  EXPECT_EQ(machine.fitted_to.model, "lenet");
  EXPECT_EQ(machine.fitted_to.batch, 64);
  EXPECT_EQ(machine.fitted_to.step_sec, 0.010);
}

TEST(FitTo, KernelsBecomeFasterWhereTheyAloneTakeLonger) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = WithSteps(1);
  const absl::StatusOr<Fit> fit = FitTo(machine, {Measured(program, 0.003)});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->step_sec, 0, kExact);
  EXPECT_NEAR(fit->kernel_factor, 0.75, 1e-6);
  EXPECT_NEAR(machine.memory_bytes_per_sec.value, 1e9 / 0.75, 1e3);
  EXPECT_EQ(machine.memory_bytes_per_sec.origin, engine::Origin::kFitted);
  EXPECT_EQ(machine.memory_bytes_per_sec.source, "divided by 0.75 to fit row 1");
}

TEST(FitTo, KernelsBecomeSlowerWhereTheHostIsHidden) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = WithSteps(2);
  machine.step_sec.value = 0.001;  // under the kernels
  const absl::StatusOr<Fit> fit = FitTo(machine, {Measured(program, 0.010)});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->kernel_factor, 2.5, 1e-6);
  EXPECT_EQ(machine.step_sec.value, 0.001);
}

// 2 ms of flops; 4 ms of bytes, which the rate of a measured op holds already.
TEST(FitTo, AMeasuredOpStaysMeasuredSoThatTheStepIsTheOneFittedTo) {
  program::RepresentativeProgram program = MovesBytes(4'000'000);
  program.program.tasks[0].work.flops = 2'000'000;
  engine::Machine machine = WithSteps(2);
  machine.ops = {{.op = "relu_forward", .points = {{.rate = 1e9}}, .origin = engine::Origin::kMeasured}};
  const absl::StatusOr<Fit> fit = FitTo(machine, {Measured(program, 0.003)});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->kernel_factor, 1.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(engine::Simulate(program, machine)->step), 0.003, kExact);
  EXPECT_EQ(machine.ops[0].source, "relu_forward; divided by 1.5 to fit row 1");
}

TEST(FitKernels, LeavesTheHostsPart) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = WithSteps(1);
  machine.step_sec.value = 0.002;
  const absl::StatusOr<double> factor = FitKernels(machine, Measured(program, 0.008));
  ASSERT_TRUE(factor.ok()) << factor.status();
  EXPECT_NEAR(*factor, 1.5, 1e-6);
  EXPECT_EQ(machine.step_sec.value, 0.002);
}

TEST(FitTo, TwoStepsGiveBothNumbers) {
  const program::RepresentativeProgram four = MovesBytes(4'000'000), two = MovesBytes(2'000'000);
  engine::Machine machine = WithSteps(1);
  // host + 4 f = 10, host + 2 f = 6.
  const absl::StatusOr<Fit> fit = FitTo(machine, {Measured(four, 0.010), Measured(two, 0.006, "2")});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->kernel_factor, 2, 1e-6);
  EXPECT_NEAR(fit->step_sec, 0.002, 1e-8);
  EXPECT_EQ(machine.fitted_to.batch, 0) << "such a fit cannot be repeated from the profile alone";
}

TEST(FitTo, AStepInHalfPrecisionCannotBeRepeatedFromTheProfile) {
  program::RepresentativeProgram program = MovesBytes(4'000'000);
  program.program.dtype = program::DType::kBF16;
  engine::Machine machine = WithSteps(1);
  ASSERT_TRUE(FitTo(machine, {Measured(program, 0.010)}).ok());
  EXPECT_EQ(machine.fitted_to.model, "lenet");
  EXPECT_EQ(machine.fitted_to.batch, 0);
}

TEST(FitTo, MemoryStaysBelowItsPeak) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = WithSteps(1);
  machine.peak_memory_bytes_per_sec.value = 1.1e9;
  EXPECT_THAT(ErrorOf(machine, {Measured(program, 0.003)}), HasSubstr("row 1 takes 3 ms"));
  ASSERT_TRUE(FitTo(machine, {Measured(program, 0.0038)}).ok());
  EXPECT_LE(machine.memory_bytes_per_sec.value, 1.1e9);
}

TEST(FitTo, SaysWhatNoFactorGives) {
  const program::RepresentativeProgram sends = MovesBytes(1'000'000, 5'000'000), four = MovesBytes(4'000'000),
                                       two = MovesBytes(2'000'000);
  EXPECT_THAT(ErrorOf(WithSteps(2, 2), {Measured(sends, 0.003)}),
              HasSubstr("fit: row 1 takes 3 ms, but transfers and the host alone take 5 on machine test"));
  EXPECT_THAT(
      ErrorOf(WithSteps(2), {Measured(four, 0.010), Measured(two, 0.006, "2")}),
      HasSubstr("expected one row on machine test, whose steps hide the host's part (steps_in_flight 2), found two"));
  // A step of half the work that takes more than the whole.
  EXPECT_THAT(ErrorOf(WithSteps(1), {Measured(four, 0.010), Measured(two, 0.011, "2")}),
              HasSubstr("row 2 takes 11 ms beside row 1, and machine test can have 5 to "));
}

TEST(MakeRefit, RepeatsTheFitThatTheProfileStates) {
  engine::Machine machine = WithSteps(1);
  EXPECT_EQ(*MakeRefit(machine), nullptr);
  machine.fitted_to = {.model = "lenet", .batch = 8, .step_sec = 2};
  const absl::StatusOr<Refit> refit = MakeRefit(machine);
  ASSERT_TRUE(refit.ok()) << refit.status();
  engine::Machine slow = machine, fast = machine;
  slow.memory_bytes_per_sec.value /= 2;
  ASSERT_TRUE((*refit)(slow).ok());
  ASSERT_TRUE((*refit)(fast).ok());
  EXPECT_LT(slow.step_sec.value, fast.step_sec.value);
  EXPECT_GT(slow.step_sec.value, 0);
  machine.fitted_to.model = "lenat";
  EXPECT_THAT(std::string(MakeRefit(machine).status().message()), HasSubstr("did you mean \"lenet\"?"));
}

}  // namespace
}  // namespace colonnade::tools
