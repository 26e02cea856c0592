// Executor and trainer on CPU devices with small lowered networks.

#include "engine/trainer.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/open_stream.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;

// Both normalised by the training set's mean and deviation. Behind the end of the test set its first samples come again.
std::unique_ptr<data::Pipeline> Digits(bool train) {
  if (train) return OpenStream("digits", {.augment = kShiftedByAPixel});
  return *data::Pipeline::Create(*data::OpenSamples("digits", data::SplitOf::kTest, {}),
                                 {.shuffle = false, .moments = Digits(true)->moments()});
}

// two_column on digits under a named plan, ready to train and to test.
struct DigitsRun {
  program::Program train_program, eval_program;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> train, eval;

  DigitsRun(const std::string& plan_name, int devices, int64_t batch = 32, partition::Reduction reduction = {},
            cpu::CpuOptions::Kernels kernels = cpu::CpuOptions::Kernels::kOneDnn, bool skips_not_finite = false) {
    absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {.width = 0.5});
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(plan_name, *graph, {.devices = devices, .global_batch = batch});
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan->reduction = reduction;
    const bool reference = kernels == cpu::CpuOptions::Kernels::kReference;
    partition::LowerOptions options{.global_batch = batch,
                                    .dtype = reference ? program::DType::kF64 : program::DType::kF32,
                                    .pixels = Digits(true)->scaling(),
                                    .update = {.weight_decay = 5e-4, .skips_not_finite = skips_not_finite}};
    train_program = *partition::Lower(*graph, *plan, options);
    options.mode = program::Mode::kEval;
    eval_program = *partition::Lower(*graph, *plan, options);
    backend = *cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1, .kernels = kernels});
    train = *Executor::Create(train_program, *backend);
    eval = *Executor::Create(eval_program, *backend);
    EXPECT_TRUE(InitializeParameters(train->loaded(), 1).ok());
  }
};

TrainReport TrainOn(DigitsRun& setup, int64_t steps) {
  const auto digits = Digits(true);
  absl::StatusOr<TrainReport> report = Train(*setup.train, *digits, {.steps = steps, .learning_rate = {.base = 0.02}});
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

TEST(Train, LearnsDigitsAlikeUnderEveryPlan) {
  DigitsRun single("single", 1);
  const TrainReport expected = TrainOn(single, 120);
  EXPECT_LT(expected.losses.back(), 0.5 * expected.losses.front());
  for (const auto& [plan, devices] :
       std::vector<std::pair<std::string, int>>{{"data", 2}, {"model", 2}, {"hybrid", 4}, {"owt", 4}}) {
    DigitsRun setup(plan, devices);
    const TrainReport report = TrainOn(setup, 12);  // roundings grow from step to step
    for (int i = 0; i < 12; ++i) EXPECT_NEAR(report.losses[i], expected.losses[i], 1e-4) << plan << " step " << i;
  }
}

// With kernels in double the curves differ by rounding alone.
TEST(Train, LossCurvesOfReferenceKernelsAgreeTo1e10) {
  constexpr auto kReference = cpu::CpuOptions::Kernels::kReference;
  DigitsRun single("single", 1, 8, {}, kReference);
  const TrainReport expected = TrainOn(single, 40);
  for (partition::Reduction reduction : partition::kReductions) {
    DigitsRun setup("hybrid", 4, 8, reduction, kReference);
    const TrainReport report = TrainOn(setup, 40);
    for (int i = 0; i < 40; ++i) EXPECT_NEAR(report.losses[i], expected.losses[i], 1e-10) << "step " << i;
  }
}

TEST(Train, TwoRunsGiveEqualBitsAlsoUnderLoad) {
  for (const auto& [plan, devices] : std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 2}, {"hybrid", 4}}) {
    DigitsRun a(plan, devices);
    const TrainReport first = TrainOn(a, 25);
    std::atomic<bool> done{false};
    std::vector<std::thread> load;
    for (int t = 0; t < 3; ++t) {
      load.emplace_back([&done] {
        while (!done) std::this_thread::yield();
      });
    }
    DigitsRun b(plan, devices);
    const TrainReport second = TrainOn(b, 25);
    done = true;
    for (std::thread& t : load) t.join();
    EXPECT_EQ(first.losses, second.losses) << plan;
    const auto wa = ReadTensors(a.train->loaded()), wb = ReadTensors(b.train->loaded());
    ASSERT_TRUE(wa.ok() && wb.ok());
    for (size_t i = 0; i < wa->size(); ++i) EXPECT_EQ((*wa)[i].values, (*wb)[i].values) << (*wa)[i].name;
  }
}

TEST(Evaluate, CountsEverySampleOnceWhateverBatchAndPlan) {
  std::map<int64_t, EvalReport> reports;
  for (const auto& [plan, devices, batch] : std::vector<std::tuple<std::string, int, int64_t>>{
           {"single", 1, 64}, {"single", 1, 7}, {"hybrid", 4, 44}, {"data", 3, 360}}) {
    DigitsRun setup(plan, devices, batch);
    const auto test = Digits(false);
    absl::StatusOr<EvalReport> report = Evaluate(*setup.eval, *test);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->count, 360) << plan << batch;
    reports[batch] = *report;
  }
  for (const auto& [batch, report] : reports) {
    EXPECT_EQ(report.top1_hits, reports[64].top1_hits) << batch;
    EXPECT_EQ(report.top5_hits, reports[64].top5_hits) << batch;
    EXPECT_NEAR(report.loss, reports[64].loss, 1e-5) << batch;
  }
}

// One device's copy of one weight is spoiled: every device stops at that step, and the message names that device's layer.
TEST(Train, WhatIsNotFiniteStopsAllDevicesNamingStepLayerAndDevice) {
  DigitsRun setup("data", 4);
  const program::Parameter* parameter = nullptr;
  for (const program::Parameter& p : setup.train_program.parameters) {
    if (p.name == "conv3.weight") parameter = &p;
  }
  ASSERT_NE(parameter, nullptr);
  std::vector<double> values(parameter->value()[2].region.elements());
  ASSERT_TRUE(setup.train->loaded().Read(parameter->value()[2].buffer, absl::MakeSpan(values)).ok());
  values[0] = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(setup.train->loaded().Write(parameter->value()[2].buffer, values).ok());
  const auto digits = Digits(true);
  const absl::Status status = Train(*setup.train, *digits, {.steps = 10}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  for (const char* part : {"step 1", "layer", "device 2"}) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(Train, AStopFlagEndsTheRunAfterTheStepInFlight) {
  DigitsRun setup("data", 2);
  const auto digits = Digits(true);
  std::atomic<bool> stop{false};
  absl::StatusOr<TrainReport> report =
      Train(*setup.train, *digits, {.steps = 1000, .stop = &stop, .on_step = [&](const TrainProgress& p) {
                                      if (p.step == 5) stop = true;
                                    }});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->stopped);
  EXPECT_GE(report->losses.size(), 5u);
  EXPECT_LE(report->losses.size(), 7u);
  EXPECT_EQ(report->end.step, static_cast<int64_t>(report->losses.size()));
}

// 12 steps at once, and 5 and 7 with the state between them: samples, shifts, dropout and rate are those of the last 7.
TEST(Train, ARunThatGoesOnComputesWhatOneRunWould) {
  DigitsRun whole("data", 2), parts("data", 2);
  const auto digits = Digits(true), others = Digits(true);
  TrainOptions options{
      .start = {.step = 20, .sample = 7},
      .steps = 12,
      .seed = 3,
      .learning_rate = {.shape = LearningRatePolicy::Shape::kStep, .base = 0.02, .factor = 0.5, .every = 4}};
  absl::StatusOr<TrainReport> expected = Train(*whole.train, *digits, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  options.steps = 5;
  absl::StatusOr<TrainReport> first = Train(*parts.train, *others, options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->end.step, 25);
  EXPECT_EQ(first->end.sample, 7 + 5 * parts.train->program().global_batch);
  EXPECT_NEAR(first->end.loss, std::accumulate(first->losses.begin(), first->losses.end(), 0.0) / 5, 1e-12);
  options.start = first->end;
  options.steps = 7;
  absl::StatusOr<TrainReport> rest = Train(*parts.train, *others, options);
  ASSERT_TRUE(rest.ok()) << rest.status();
  std::vector<double> losses = first->losses;
  losses.insert(losses.end(), rest->losses.begin(), rest->losses.end());
  EXPECT_EQ(losses, expected->losses);
}

// In two parts, of which the second is asked for the steps behind those of the first.
TEST(Train, ALearningRateMayBeAFunctionOfTheStep) {
  DigitsRun by_shape("data", 2), by_function("data", 2);
  const auto digits = Digits(true);
  TrainOptions options{
      .steps = 6, .learning_rate = {.shape = LearningRatePolicy::Shape::kStep, .base = 0.02, .factor = 0.5, .every = 2}};
  const absl::StatusOr<TrainReport> expected = Train(*by_shape.train, *digits, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<int64_t> asked;
  options.learning_rate = {.function = [&](int64_t step) {
    asked.push_back(step);
    return 0.02 * std::pow(0.5, static_cast<double>(step / 2));
  }};
  options.steps = 4;
  absl::StatusOr<TrainReport> report = Train(*by_function.train, *digits, options);
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<double> losses = report->losses;
  options.start = report->end;
  options.steps = 2;
  report = Train(*by_function.train, *digits, options);
  ASSERT_TRUE(report.ok()) << report.status();
  losses.insert(losses.end(), report->losses.begin(), report->losses.end());
  EXPECT_EQ(losses, expected->losses);
  EXPECT_THAT(asked, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Train, ALearningRateThatIsNotFiniteEndsTrainingWithAGoodState) {
  DigitsRun setup("data", 2);
  const auto digits = Digits(true);
  int64_t good_after = -1;
  const absl::Status status =
      Train(*setup.train, *digits,
            {.steps = 9,
             .learning_rate = {.function = [](int64_t step) { return 0.02 / static_cast<double>(3 - step); }},
             .before_error = [&](int64_t steps) { good_after = steps; }})
          .status();
  EXPECT_EQ(status, absl::FailedPreconditionError("step 4: expected a learning rate that is finite, found inf"));
  EXPECT_EQ(good_after, 3);
  EXPECT_TRUE(CheckFiniteParameters(setup.train->loaded()).ok());
}

// Each of what a step is keyed by alone changes the loss: a run that goes on must have all of them.
TEST(Train, StepAndSampleOfItsBeginningEachChangeTheLoss) {
  const auto loss_from = [](const RunPosition& start) {
    DigitsRun setup("single", 1);
    const auto digits = Digits(true);
    return Train(*setup.train, *digits, {.start = start, .steps = 1})->end.loss;
  };
  const double loss = loss_from({});
  EXPECT_EQ(loss_from({}), loss);
  EXPECT_NE(loss_from({.step = 1}), loss) << "dropout is of the step, the batch is the same";
  EXPECT_NE(loss_from({.sample = 32}), loss);
}

// One step is spoiled by a bias that is not a number, which the next pause mends.
TEST(Train, TheLossAtTheEndIsTheMeanOfThoseThatAreFinite) {
  DigitsRun setup("data", 2, 32, {}, cpu::CpuOptions::Kernels::kOneDnn, /*skips_not_finite=*/true);
  LoadedProgram& loaded = setup.train->loaded();
  std::vector<NamedTensor> good;
  const auto spoil_and_mend = [&](int64_t steps_done) -> absl::StatusOr<bool> {
    if (steps_done == 3) return WriteTensors(loaded, good).ok();
    good = *ReadTensors(loaded);
    std::vector<NamedTensor> spoiled = good;
    spoiled.back().values.assign(spoiled.back().values.size(), std::numeric_limits<double>::quiet_NaN());
    return WriteTensors(loaded, spoiled).ok();
  };
  const absl::StatusOr<TrainReport> report =
      Train(*setup.train, *Digits(true),
            {.steps = 5,
             .skips_not_finite = true,
             .pauses = {.is_due = [](int64_t done) { return done == 2 || done == 3; }, .at = spoil_and_mend}});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<double>& losses = report->losses;
  ASSERT_EQ(losses.size(), 5);
  EXPECT_EQ(report->skipped_steps, 1);
  EXPECT_FALSE(std::isfinite(losses[2]));
  EXPECT_DOUBLE_EQ(report->end.loss, (losses[0] + losses[1] + losses[3] + losses[4]) / 4);
}

TEST(Train, AProgramOfImagesInFloatsIsToldHowItIsLowered) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("single", graph, {.global_batch = 32});
  const program::Program program = *partition::Lower(graph, plan, {.global_batch = 32});
  const std::unique_ptr<Backend> backend = *cpu::MakeCpuBackend({.devices = 1, .threads_per_device = 1});
  const std::unique_ptr<Executor> executor = *Executor::Create(program, *backend);
  ASSERT_TRUE(InitializeParameters(executor->loaded(), 1).ok());
  const absl::Status status = Train(*executor, *Digits(true), {.steps = 1, .learning_rate = {.base = 0.02}}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("is lowered with the scaling of its pixels"));
}

// One pixel of 3e38, always of class 4.
class HugePixels : public DataSource {
 public:
  std::string description() const override { return "huge pixels"; }
  int64_t size() const override { return 2; }
  const program::Shape& sample_shape() const override { return shape_; }
  int64_t classes() const override { return 10; }
  const program::PixelScaling& scaling() const override { return scaling_; }
  absl::Status Read(int64_t, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override {
    std::fill(images.begin(), images.end(), 1);
    std::fill(labels.begin(), labels.end(), 4);
    return absl::OkStatus();
  }

 private:
  const program::Shape shape_ = {1, 1, 1};
  const program::PixelScaling scaling_ = {.scale = {3e38}, .shift = {0}};
};

// Each of two devices makes a gradient of 0.9 · 3e38, which a float holds; it does not hold their sum.
TEST(Train, ASumOverDevicesThatIsNotFiniteEndsTrainingOrIsSkipped) {
  layers::GraphBuilder net("one");
  const auto pixel = net.Flatten("flatten", net.Input("images", {1, 1, 1}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", pixel, {.out_features = 10, .bias = false}), {.weight = 2});
  const layers::LayerGraph graph = *std::move(net).Build();
  HugePixels pixels;
  TrainReport report;
  const auto train = [&](partition::UpdateOptions update, int64_t steps_before = 0) {
    const program::Program program =
        *partition::Lower(graph, *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 2}),
                          {.global_batch = 2, .pixels = pixels.scaling(), .update = update});
    const std::unique_ptr<Backend> backend = *cpu::MakeCpuBackend({.devices = 2, .threads_per_device = 1});
    const std::unique_ptr<Executor> executor = *Executor::Create(program, *backend);
    EXPECT_TRUE(WriteTensors(executor->loaded(), {{"fc.weight", {10, 1}, std::vector<double>(10, 1e-40)}}).ok());
    return Train(*executor, pixels,
                 {.start = {.step = steps_before},
                  .steps = 3,
                  .skips_not_finite = update.skips_not_finite,
                  .report_of_error = &report})
        .status();
  };
  const std::string what = "the norm of the gradients' sums over all devices is not finite; all devices stopped";
  const absl::Status clipped = train({.clip_norm = 1}), skipped = train({.skips_not_finite = true});
  EXPECT_EQ(clipped.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(clipped.message()), HasSubstr("step 1: " + what));
  EXPECT_EQ(skipped.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(skipped.message()), HasSubstr("all 3 steps were skipped; in the last: " + what));
  EXPECT_EQ(report.skipped_steps, 3) << "as the message says";
  EXPECT_EQ(report.losses.size(), 3u);
  EXPECT_EQ(report.step_times.size(), 3u);
  // Of a run that goes on these are not all steps.
  EXPECT_TRUE(train({.skips_not_finite = true}, /*steps_before=*/2).ok());
}

// Digits whose rows are cut otherwise, and whose channels are said to be scaled by more numbers than are shifted.
class OtherDigits : public DataSource {
 public:
  OtherDigits(program::Shape shape, program::PixelScaling scaling)
      : shape_(std::move(shape)), scaling_(std::move(scaling)) {}
  std::string description() const override { return "other digits"; }
  int64_t size() const override { return digits_->size(); }
  const program::Shape& sample_shape() const override { return shape_; }
  int64_t classes() const override { return digits_->classes(); }
  const program::PixelScaling& scaling() const override { return scaling_; }
  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override {
    return digits_->Read(position, images, labels);
  }

 private:
  std::unique_ptr<data::Pipeline> digits_ = Digits(true);
  program::Shape shape_;
  program::PixelScaling scaling_;
};

TEST(Train, ImagesOfAnotherShapeAreRefusedThoughTheyHaveAsManyValues) {
  DigitsRun setup("single", 1);
  const program::PixelScaling scaling = Digits(true)->scaling();
  const auto message = [&](DataSource& data) { return std::string(Train(*setup.train, data, {}).status().message()); };
  for (const program::Shape& shape : {program::Shape{1, 4, 16}, {64, 1, 1}, {1, 1, 64}}) {
    OtherDigits data(shape, scaling);
    EXPECT_THAT(message(data), HasSubstr("do not fit the network, whose input is [32,8,8,1]")) << program::ToString(shape);
  }
  OtherDigits unshifted({1, 8, 8}, {scaling.scale, {}});
  EXPECT_THAT(message(unshifted), HasSubstr("lowered for its mean and deviation"));
}

TEST(Train, WhatCannotBeMeantIsRefused) {
  DigitsRun setup("data", 2);
  const auto digits = Digits(true), test = Digits(false);
  auto refuses = [](const absl::Status& status, const char* message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  refuses(Train(*setup.train, *digits, {.steps = 0}).status(), "expected at least 1 step");
  refuses(Train(*setup.train, *digits, {.start = {.step = -1}}).status(), "from step -1");
  refuses(Train(*setup.train, *digits, {.start = {.sample = -1}}).status(), "sample -1");
  constexpr auto kLast = static_cast<int64_t>(program::kLargestScalar);
  refuses(Train(*setup.train, *digits, {.start = {.step = kLast}}).status(), "expected a last step and sample of at most");
  refuses(Train(*setup.train, *digits, {.start = {.sample = INT64_MAX - 10}, .steps = 2}).status(),
          "found 2 steps of 32 samples from step 0, sample 9223372036854775797");
  EXPECT_TRUE(Train(*setup.train, *digits, {.start = {.step = kLast - 1, .sample = kLast - 32}}).ok()) << "the last";
  refuses(Train(*setup.train, *digits, {.learning_rate = {.shape = LearningRatePolicy::Shape::kCosine}}).status(),
          "LearningRatePolicy::steps");
  refuses(Train(*setup.train, *digits, {.skips_not_finite = true}).status(), "LowerOptions::update.skips_not_finite");
  refuses(
      Train(*setup.train, *digits, {.copies = {.is_due = [](int64_t) { return true; }, .begin = {}, .end = {}}}).status(),
      "copies: expected begin and end");
  refuses(Train(*setup.train, *digits, {.pauses = {.is_due = [](int64_t) { return true; }, .at = {}}}).status(),
          "pauses: expected at beside is_due");
  refuses(Train(*setup.eval, *digits, {}).status(), "expected a Program for training, found one for evaluation");
  refuses(Evaluate(*setup.train, *test).status(), "expected a Program for evaluation, found one for training");
  for (const data::Moments& other : {data::Moments{.std = {0.5}}, {.mean = {0.5}}}) {
    const auto stream = OpenStream("digits", {.moments = other});
    refuses(Train(*setup.train, *stream, {}).status(), "lowered for its mean and deviation");
  }
}

TEST(Train, AnInputThatNobodyFillsIsRefused) {
  DigitsRun setup("single", 1);
  program::Program program = setup.train_program;
  program.inputs[1].name = "targets";
  const std::unique_ptr<Executor> executor = *Executor::Create(program, *setup.backend);
  const auto digits = Digits(true);
  EXPECT_THAT(std::string(Train(*executor, *digits, {}).status().message()), HasSubstr("found \"targets\""));
}

TEST(Train, ParametersThatWereNeverSetAreRefused) {
  DigitsRun setup("hybrid", 4);
  std::vector<NamedTensor> zeros = *ReadTensors(setup.train->loaded());
  for (NamedTensor& tensor : zeros) std::fill(tensor.values.begin(), tensor.values.end(), 0.0);
  const std::unique_ptr<Backend> fresh = *cpu::MakeCpuBackend({.devices = 4, .threads_per_device = 1});
  const std::unique_ptr<Executor> untouched = *Executor::Create(setup.train_program, *fresh);
  ASSERT_EQ(ReadTensors(untouched->loaded())->front().values, zeros.front().values);
  const auto digits = Digits(true);
  const absl::Status status = Train(*untouched, *digits, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("call InitializeParameters or WriteTensors first"));
  ASSERT_TRUE(InitializeParameters(untouched->loaded(), 1).ok());
  EXPECT_TRUE(Train(*untouched, *digits, {}).ok());
}

// The first layer gives no gradient to one before it: where its ReLU makes 0 of NaN, loss and gradients are finite.
TEST(Train, AWeightThatIsNotFiniteIsFoundAlsoBehindARelu) {
  DigitsRun setup("single", 1, 32, {}, cpu::CpuOptions::Kernels::kReference);
  std::vector<NamedTensor> weights = *ReadTensors(setup.train->loaded());
  for (NamedTensor& tensor : weights) {
    if (tensor.name == "conv1.weight") tensor.values[3] = std::numeric_limits<double>::quiet_NaN();
  }
  ASSERT_TRUE(WriteTensors(setup.train->loaded(), weights).ok());
  const auto digits = Digits(true);
  const absl::Status status = Train(*setup.train, *digits, {.steps = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("after step 2: tensor \"conv1.weight\""));
}

// A test has no learning rate that could be smaller.
TEST(Evaluate, ALossThatIsNotFiniteIsToldOfTheBatchCountedFromOne) {
  DigitsRun setup("single", 1);
  std::vector<NamedTensor> weights = *ReadTensors(setup.eval->loaded());
  weights.back().values.assign(weights.back().values.size(), std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(WriteTensors(setup.eval->loaded(), weights).ok());
  const absl::Status status = Evaluate(*setup.eval, *Digits(false)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("test batch 1: the loss is not finite"));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("learning rate")));
}

TEST(TrainReport, StepTimesLeaveOutTheFirstFourOrAThird) {
  TrainReport report;
  for (int i = 0; i < 4; ++i) report.step_times.push_back(absl::Seconds(100));
  for (int i = 1; i <= 9; ++i) report.step_times.push_back(absl::Seconds(i));
  EXPECT_EQ(report.MedianStep(), absl::Seconds(5));
  EXPECT_DOUBLE_EQ(absl::ToDoubleSeconds(report.P95Step()), 8.6) << "linear between the last two";
  report.step_times = {absl::Seconds(100), absl::Seconds(1), absl::Seconds(2)};
  EXPECT_EQ(report.MedianStep(), absl::Milliseconds(1500)) << "as Median of engine/statistics.h";
  report.step_times = {absl::Seconds(3)};
  EXPECT_EQ(report.MedianStep(), absl::Seconds(3));
}

template <class T>
concept CanBeRun = requires(T program, Backend& backend) {
  Executor::Create(std::forward<T>(program), backend);
};
static_assert(CanBeRun<const program::Program&> && !CanBeRun<program::Program>, "an executor outlives no temporary");

TEST(Executor, CollectAndEnqueueKeepTheirOrder) {
  DigitsRun setup("single", 1);
  EXPECT_EQ(setup.train->Collect().status().code(), absl::StatusCode::kFailedPrecondition);
  const auto digits = Digits(true);
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<absl::Span<uint8_t>> images = setup.train->NextInput<uint8_t>(engine::kImages);
    ASSERT_TRUE(images.ok());
    ASSERT_TRUE(digits->Read(0, *images, *setup.train->NextInput<int32_t>(engine::kLabels)).ok());
    ASSERT_TRUE(setup.train->Enqueue({.learning_rate = 0}).ok());
  }
  EXPECT_EQ(setup.train->Enqueue({}).code(), absl::StatusCode::kFailedPrecondition);
  const double first = CollectScored(*setup.train)->loss, second = CollectScored(*setup.train)->loss;
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  const DigitsRun of_two("data", 2);
  EXPECT_EQ(Executor::Create(of_two.train_program, *setup.backend).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(State, WrongNamesAndShapesAreRefusedAndNothingIsWritten) {
  DigitsRun setup("hybrid", 4);
  absl::StatusOr<std::vector<NamedTensor>> before = ReadTensors(setup.train->loaded());
  ASSERT_TRUE(before.ok());
  std::vector<NamedTensor> tensors = *before;
  for (NamedTensor& t : tensors) std::fill(t.values.begin(), t.values.end(), 3.0);
  std::vector<NamedTensor> missing(tensors.begin(), tensors.end() - 1), extra = tensors, wrong = tensors;
  extra.push_back({"more", {1}, {0}});
  wrong.back().shape.push_back(1);
  for (const auto& bad : {missing, extra, wrong}) {
    EXPECT_EQ(WriteTensors(setup.train->loaded(), bad).code(), absl::StatusCode::kInvalidArgument);
  }
  absl::StatusOr<std::vector<NamedTensor>> after = ReadTensors(setup.train->loaded());
  for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ((*before)[i].values, (*after)[i].values);
  ASSERT_TRUE(WriteTensors(setup.train->loaded(), tensors).ok());
  after = ReadTensors(setup.train->loaded());
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ((*after)[i].values, tensors[i].values);
}

TEST(State, MomentaSurviveReadingAndWritingUnderEveryReduction) {
  for (partition::Reduction reduction : partition::kReductions) {
    DigitsRun setup("data", 4, 32, reduction), other("model", 2);
    TrainOn(setup, 3);
    absl::StatusOr<std::vector<NamedTensor>> momenta = ReadTensors(setup.train->loaded(), StateKind::kMomentum);
    ASSERT_TRUE(momenta.ok()) << momenta.status();
    double norm = 0;
    for (const NamedTensor& t : *momenta) {
      for (double v : t.values) norm += v * v;
    }
    EXPECT_GT(norm, 0);
    ASSERT_TRUE(WriteTensors(other.train->loaded(), *momenta, StateKind::kMomentum).ok());
    absl::StatusOr<std::vector<NamedTensor>> moved = ReadTensors(other.train->loaded(), StateKind::kMomentum);
    ASSERT_TRUE(moved.ok());
    for (size_t i = 0; i < momenta->size(); ++i) EXPECT_EQ((*moved)[i].values, (*momenta)[i].values);
  }
}

}  // namespace
}  // namespace colonnade::engine
