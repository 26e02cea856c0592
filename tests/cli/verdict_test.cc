// What a training says of itself: the judgement on figures made up, and on real trainings of which one device, or the input,
// is slowed on purpose.

#include "cli/training/verdict.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backend.h"
#include "cpu/threads/cores.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/program.h"
#include "tests/counts_core_waits.h"
#include "tests/sanitized.h"

namespace colonnade::cli {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kMs = absl::Milliseconds(1);

engine::Breakdown Device(int compute, int communication, int input, int idle) {
  return {compute * kMs, communication * kMs, input * kMs, idle * kMs};
}

MeasuredSteps Measured(std::vector<engine::Breakdown> devices, absl::Duration input_waited = absl::ZeroDuration()) {
  return {.steps_done = 50,
          .step = 100 * kMs,
          .devices = std::move(devices),
          .input_waited = input_waited,
          .input_stage = "decode"};
}

TEST(Judge, SharesAreMeansOverTheDevicesAndAddUpToOne) {
  const Verdict v = Judge(Measured({Device(90, 4, 1, 5), Device(80, 10, 1, 9)}), {});
  EXPECT_THAT(v.compute, DoubleNear(0.85, 1e-9));
  EXPECT_THAT(v.communication, DoubleNear(0.07, 1e-9));
  EXPECT_THAT(v.input, DoubleNear(0.01, 1e-9));
  EXPECT_THAT(v.idle, DoubleNear(0.07, 1e-9));
  EXPECT_EQ(v.cause, Cause::kCompute);
}

TEST(Judge, TheLargestLossOfAllDevicesIsTheCause) {
  EXPECT_EQ(Judge(Measured({Device(60, 30, 0, 10), Device(60, 25, 0, 15)}), {}).cause, Cause::kCommunication);
  EXPECT_EQ(Judge(Measured({Device(60, 10, 0, 30), Device(60, 15, 0, 25)}), {}).cause, Cause::kIdle);
  EXPECT_EQ(Judge(Measured({Device(60, 10, 20, 10)}), {}).cause, Cause::kInput);
  // One that waits loses what the others do not: no tenth is lost by all.
  EXPECT_EQ(Judge(Measured({Device(95, 2, 0, 3), Device(95, 2, 0, 3), Device(80, 17, 0, 3)}), {}).cause, Cause::kCompute);
}

TEST(Judge, DevicesThatDoNothingWhileTheHostWaitsForABatchWaitForTheInput) {
  const Verdict v = Judge(Measured({Device(50, 0, 5, 45)}, 30 * kMs), {});
  EXPECT_EQ(v.cause, Cause::kInput);
  EXPECT_THAT(v.input, DoubleNear(0.35, 1e-9));
  EXPECT_THAT(v.idle, DoubleNear(0.15, 1e-9));
  // Waiting that compute hides costs nothing.
  EXPECT_EQ(Judge(Measured({Device(97, 0, 0, 3)}, 60 * kMs), {}).cause, Cause::kCompute);
}

TEST(Judge, ASlowDeviceIsNamedWithHowSlowItIs) {
  const Verdict v =
      Judge(Measured({Device(45, 50, 0, 5), Device(90, 5, 0, 5), Device(44, 51, 0, 5), Device(46, 49, 0, 5)}), {});
  EXPECT_EQ(v.cause, Cause::kSlowDevice);
  EXPECT_EQ(v.device, 1);
  EXPECT_THAT(v.times_as_long, DoubleNear(2, 1e-9));
  EXPECT_THAT(v.lost, DoubleNear(0.45, 1e-9));
}

TEST(Judge, ADeviceThatHasMoreToDoIsNotSlow) {
  const std::vector<engine::Breakdown> devices = {Device(45, 50, 0, 5), Device(90, 5, 0, 5)};
  EXPECT_EQ(Judge(Measured(devices), std::vector<double>{1, 2}).cause, Cause::kCompute);
  EXPECT_EQ(Judge(Measured(devices), std::vector<double>{1, 1}).cause, Cause::kSlowDevice);
}

// A device without a core is slow, and the others wait for it.
TEST(Judge, ThreadsThatWaitForACoreAreNamedWhereTheyExplainHalfOfTheLoss) {
  MeasuredSteps measured = Measured({Device(98, 1, 0, 1), Device(50, 49, 0, 1)});
  const auto cause = [&](double core_waited) {
    measured.core_waited = core_waited;
    return Judge(measured, {}).cause;
  };
  EXPECT_EQ(cause(0), Cause::kSlowDevice);  // loses 0.48
  EXPECT_EQ(cause(0.23), Cause::kSlowDevice);
  EXPECT_EQ(cause(0.25), Cause::kCores);
  measured.devices = {Device(99, 0, 0, 1)};
  EXPECT_EQ(cause(0.09), Cause::kCompute);
  EXPECT_EQ(cause(0.4), Cause::kCores);
  const Verdict verdict = Judge(measured, {});
  EXPECT_EQ(verdict.lost, 0.4);
  EXPECT_EQ(verdict.device, -1);
  EXPECT_THAT(verdict.compute, DoubleNear(0.99, 1e-9));
  EXPECT_THAT(VerdictText(measured, verdict, {})[1], HasSubstr("waits for a core for 40 % of the time"));
}

TEST(Judge, WithoutTimesOfTasksTheInputAloneIsKnown) {
  EXPECT_EQ(Judge(Measured({}, 40 * kMs), {}).cause, Cause::kInput);
  EXPECT_EQ(Judge(Measured({}, 4 * kMs), {}).cause, Cause::kCompute);
}

TEST(VerdictText, SaysWhatWasMeasuredAndPredictedAndNamesTheCause) {
  const MeasuredSteps measured = Measured({Device(50, 5, 35, 10)});
  EXPECT_THAT(
      VerdictText(measured, Judge(measured, {}), 90 * kMs),
      ElementsAre("after 50 steps: 100.00 ms a step, predicted 90.00 ms (-10 %); compute 50 %, exposed "
                  "communication 5 %, input 35 %, idle 10 %",
                  "the input is too slow: the device waits 35 % of a step for it, most of whose work is to decode; see "
                  "--data-threads and io-bench"));
}

TEST(VerdictText, OfSeveralDevicesTheCauseTakesItsShareOnEveryOne) {
  const MeasuredSteps measured = Measured({Device(50, 40, 0, 10), Device(50, 20, 0, 30)});
  const std::vector<std::string> text = VerdictText(measured, Judge(measured, {}), {});
  EXPECT_THAT(text[0], HasSubstr("exposed communication 30 %"));
  EXPECT_THAT(text[1], HasSubstr("exposed communication takes at least 20 % of a step on every device"));
}

TEST(IsFaster, OnlyByMoreThanThePredictionWasWrong) {
  const FoundPlan plan{.name = "hybrid", .devices = 4, .searched_devices = 4, .step = 85 * kMs};
  EXPECT_TRUE(IsFaster(plan, 100 * kMs, 101 * kMs));                   // 15 % less, predictions 1 % off
  EXPECT_FALSE(IsFaster(plan, 100 * kMs, 125 * kMs));                  // predictions 20 % off
  EXPECT_FALSE(IsFaster({.step = 98.5 * kMs}, 100 * kMs, 100 * kMs));  // predictions are mostly off by 2 %
  EXPECT_THAT(
      FoundPlanText(plan, 100 * kMs, 101 * kMs),
      HasSubstr("plan hybrid on 4 devices is predicted to take 85.00 ms a step, 15 % less than this one: --plan=auto "
                "--devices=4"));
  EXPECT_THAT(
      FoundPlanText(plan, 100 * kMs, 125 * kMs),
      HasSubstr("no plan on up to 4 devices is predicted to be faster by more than the error of predictions here, 20 %"));
}

// The Program with each convolution of `device` done so many times: what the plan knows nothing of.
program::Program WithMoreToDo(const program::Program& program, int device, int times) {
  program::Program slowed = program;
  slowed.tasks.clear();
  std::vector<program::TaskId> now(program.tasks.size());
  for (const program::Task& task : program.tasks) {
    const bool repeats = task.device == device && program::Name(task) == "conv_forward";
    for (int copy = 0; copy < (repeats ? times : 1); ++copy) {
      now[task.id.value] = {static_cast<int32_t>(slowed.tasks.size())};
      slowed.tasks.push_back(task);
      slowed.tasks.back().id = now[task.id.value];
    }
  }
  for (program::Task& task : slowed.tasks) {
    for (program::TaskId& wait : task.waits) wait = now[wait.value];
    for (program::TaskId& wait : task.waits_previous) wait = now[wait.value];
  }
  return slowed;
}

// Samples that take their time to be read.
class SlowSamples : public data::SampleSet {
 public:
  SlowSamples(std::shared_ptr<const data::SampleSet> set, absl::Duration time) : set_(std::move(set)), time_(time) {}
  const std::string& name() const override { return set_->name(); }
  int64_t size() const override { return set_->size(); }
  int32_t label(int64_t sample) const override { return set_->label(sample); }
  std::string sample_name(int64_t sample) const override { return set_->sample_name(sample); }
  const std::vector<std::string>& class_names() const override { return set_->class_names(); }
  std::optional<program::Shape> image_shape() const override { return set_->image_shape(); }
  double largest_value() const override { return set_->largest_value(); }
  absl::StatusOr<data::StoredImage> Read(int64_t sample, std::string& room) const override {
    absl::SleepFor(time_);
    return set_->Read(sample, room);
  }

 private:
  const std::shared_ptr<const data::SampleSet> set_;
  const absl::Duration time_;
};

// What the first steps of two_column on digits under plan "data" on two devices are judged to lose most by.
struct Outcome {
  MeasuredSteps measured;
  Verdict verdict;
};
Outcome TrainAndJudge(int times_on_device_1, absl::Duration read, int threads_per_device = 1, bool judges_cores = false) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {});
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 64});
  std::shared_ptr<const data::SampleSet> samples = *data::OpenSamples("digits", data::SplitOf::kTrain, {});
  if (read > absl::ZeroDuration()) samples = std::make_shared<SlowSamples>(samples, read);
  data::PipelineOptions options{.augment = {.height = 8, .width = 8, .channels = 1}, .threads = 1};
  options.moments = {.mean = {0.3}, .std = {0.37}};
  const std::unique_ptr<data::Pipeline> input = *data::Pipeline::Create(samples, options);
  const program::Program program =
      WithMoreToDo(*partition::Lower(graph, plan, {.global_batch = 64, .pixels = input->scaling()}), 1, times_on_device_1);
  const std::unique_ptr<engine::Backend> backend =
      *cpu::MakeCpuBackend({.devices = 2, .threads_per_device = threads_per_device});
  const std::unique_ptr<engine::Executor> executor = *engine::Executor::Create(program, *backend);
  EXPECT_TRUE(engine::InitializeParameters(executor->loaded(), 1).ok());
  FirstSteps first_steps(*executor, *input, 12);
  const absl::StatusOr<engine::TrainReport> report =
      engine::Train(*executor, *input,
                    {.steps = 12, .learning_rate = {.base = 0.01}, .on_step = [&](const auto& p) { first_steps.Add(p); }});
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(first_steps.is_ready());
  Outcome outcome{.measured = first_steps.Measured().value_or(MeasuredSteps{})};
  if (!judges_cores) outcome.measured.core_waited = 0;  // other tests may have the cores
  outcome.verdict = Judge(outcome.measured, {});
  return outcome;
}

TEST(FirstSteps, OfATrainingWithOneDeviceSlowedNameThatDevice) {
  const auto [measured, verdict] = TrainAndJudge(/*times_on_device_1=*/300, absl::ZeroDuration());
  EXPECT_EQ(verdict.cause, Cause::kSlowDevice) << VerdictText(measured, verdict, std::nullopt).back();
  EXPECT_EQ(verdict.device, 1);
  EXPECT_GT(verdict.times_as_long, 1.5);
}

TEST(FirstSteps, OfATrainingWithItsInputSlowedNameTheInputAndTheStage) {
  // Far more than a step's compute, whatever else the machine does.
  const auto [measured, verdict] = TrainAndJudge(/*times_on_device_1=*/1, absl::Milliseconds(kSanitized ? 20 : 5));
  EXPECT_EQ(verdict.cause, Cause::kInput) << VerdictText(measured, verdict, std::nullopt).back();
  EXPECT_EQ(measured.input_stage, "read");
  EXPECT_GT(measured.step, absl::Milliseconds(64));  // of 64 samples
}

// Two devices of two threads each that the process keeps to one core.
TEST(FirstSteps, OfATrainingWithMoreThreadsThanCoresNameTheCores) {
  if (kSanitized) GTEST_SKIP() << "under a sanitizer devices have one thread, or threads that wait otherwise";
  const std::vector<int> cores = cpu::CoresOfProcess();
  ASSERT_FALSE(cores.empty());
  cpu::KeepToCores({cores.front()});
  const auto [measured, verdict] =
      TrainAndJudge(/*times_on_device_1=*/1, absl::ZeroDuration(), /*threads_per_device=*/2, /*judges_cores=*/true);
  cpu::KeepToCores(cores);
  if (!CountsCoreWaits()) GTEST_SKIP() << "skipped: this system does not count how long threads wait for a core";
  EXPECT_EQ(verdict.cause, Cause::kCores) << VerdictText(measured, verdict, std::nullopt).back();
}

}  // namespace
}  // namespace colonnade::cli
