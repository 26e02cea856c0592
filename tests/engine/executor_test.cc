// The executor on a backend that records its calls: order, host memory, results.

#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/classification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/engine/fake_backend.h"

namespace colonnade::engine {
namespace {

using program::BufferId;
using program::Builder;
using program::DType;
using program::Input;
using program::Lane;
using program::Output;
using program::Piece;
using program::Program;
using program::Region;
using program::TaskId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kPixels = 2;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Images and labels cut over two devices. Metrics, which device 1 reports: Σ of the pixels of all that have run so far,
// their first pixel as hits, the labels ≥ 0. Flags of two parameters. The gradient of "a" is [2, 2]: row 0 in f32 on device
// 0, row 1 in f64 on device 1.
struct TwoDevices {
  Program program;
  std::vector<BufferId> images, labels, scalars, metrics, flags, gradients;

  TwoDevices() {
    Builder b("two_devices", program::Mode::kTrain, kBatch, DType::kF32, {{"data", 2}});
    Input image_input{"images", DType::kF32, {kBatch, kPixels}, {}}, label_input{"labels", DType::kI32, {kBatch}, {}},
        scalar_input{"scalars", DType::kF64, {program::StepScalar::kCount}, {}};
    // Flags stand before metrics, and device 1 before device 0, so that an order of our own shows.
    Output finite{.kind = Output::Kind::kFinite, .name = "finite", .shape = {2}};
    Output sums{.kind = Output::Kind::kMetrics, .name = "metrics", .layer = "loss", .shape = {program::Metric::kCount}};
    Output gradient{.kind = Output::Kind::kGradient, .name = "a", .layer = "first", .shape = {2, 2}};
    for (int d = 0; d < 2; ++d) {
      images.push_back(b.AddBuffer(d, "images", DType::kF32, {2, kPixels}));
      labels.push_back(b.AddBuffer(d, "labels", DType::kI32, {2}));
      scalars.push_back(b.AddBuffer(d, "scalars", DType::kF64, {program::StepScalar::kCount}));
      metrics.push_back(b.AddBuffer(d, "metrics", DType::kF64, {program::Metric::kCount}));
      flags.push_back(b.AddBuffer(d, "flags", DType::kI32, {2}));
      gradients.push_back(b.AddBuffer(d, "gradient", d == 0 ? DType::kF32 : DType::kF64, {1, 2}));
      image_input.pieces.push_back({images[d], {{2 * d, 0}, {2, kPixels}}});
      label_input.pieces.push_back({labels[d], {{2 * d}, {2}}});
      scalar_input.pieces.push_back({scalars[d], Region::Whole(scalar_input.shape)});
      gradient.pieces.push_back({gradients[d], {{d, 0}, {1, 2}}});
    }
    for (int d : {1, 0}) finite.pieces.push_back({flags[d], Region::Whole(finite.shape)});
    sums.pieces.push_back({metrics[1], Region::Whole(sums.shape)});
    b.AddParameter({.name = "a", .layer = "first", .shape = {2, 2}});
    b.AddParameter({.name = "b", .layer = "second", .shape = {3}});
    for (Input* input : {&image_input, &label_input, &scalar_input}) b.AddInput(*input);
    for (Output* output : {&finite, &sums, &gradient}) b.AddOutput(*output);
    for (int d = 0; d < 2; ++d) {
      int index = 0;
      for (BufferId to : {images[d], labels[d], scalars[d]}) {
        b.AddCompute(d, Lane::kCopy, program::Load{index++}, {b.Write(to)}, {}, {"input", program::Pass::kInput});
      }
      b.AddCompute(d, Lane::kCompute, program::SoftmaxCrossEntropyForward{},
                   {b.Read(images[d]), b.Read(labels[d]), b.Write(metrics[d])}, {}, {"loss"});
      index = 0;
      for (BufferId from : {flags[d], metrics[d], gradients[d]}) {
        const int output = index++;
        if (d == 0 && from == metrics[0]) continue;
        b.AddCompute(d, Lane::kCopy, program::Store{output}, {b.Read(from)}, {}, {"output", program::Pass::kOutput});
      }
    }
    program = std::move(b).Build();
  }

  void Meaning(const program::Task& task, FakeLoaded& loaded) const {
    const int d = task.device;
    std::vector<double>& out = loaded.memory[metrics[d].value];
    out = d == 0 ? std::vector<double>(program::Metric::kCount) : loaded.memory[metrics[0].value];
    for (double pixel : loaded.memory[images[d].value]) out[program::Metric::kLossSum] += pixel;
    for (double label : loaded.memory[labels[d].value]) out[program::Metric::kLabelCount] += label >= 0;
    out[program::Metric::kTop1Hits] += loaded.memory[images[d].value][0];
    out[program::Metric::kTop5Hits] = 10 * out[program::Metric::kTop1Hits];
  }
};

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() : backend_(2, [this](const program::Task& task, FakeLoaded& loaded) { two_.Meaning(task, loaded); }) {
    executor_ = *Executor::Create(two_.program, backend_);
    for (BufferId flags : two_.flags) loaded().memory[flags.value] = {1, 1};
  }
  FakeLoaded& loaded() { return *backend_.latest; }

  // Images of value `pixel` throughout.
  void Enqueue(float pixel, StepInputs inputs = {}) {
    absl::StatusOr<absl::Span<float>> images = executor_->NextInput<float>(kImages);
    ASSERT_TRUE(images.ok()) << images.status();
    std::fill(images->begin(), images->end(), pixel);
    absl::StatusOr<absl::Span<int32_t>> labels = executor_->NextInput<int32_t>(kLabels);
    ASSERT_TRUE(labels.ok()) << labels.status();
    std::fill(labels->begin(), labels->end(), 1);
    ASSERT_TRUE(executor_->Enqueue(inputs).ok());
  }
  ScoredStep Run() {
    Enqueue(1);
    absl::StatusOr<ScoredStep> result = CollectScored(*executor_);
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }

  TwoDevices two_;
  FakeBackend backend_;
  std::unique_ptr<Executor> executor_;
};

// The simplest Program with waits: load, compute, store; the load of the next step waits for the compute of this one.
TEST(ExecutorCommands, EachTaskAwaitsItsWaitsOfThisAndOfTheLastStepThenIsLaunched) {
  Builder b("chain", program::Mode::kEval, 1, DType::kF32, {{"data", 1}});
  const BufferId x = b.AddBuffer(0, "x", DType::kF32, {1, 1}), y = b.AddBuffer(0, "y", DType::kF32, {1, 1});
  b.AddInput({"images", DType::kF32, {1, 1}, {{x, Region::Whole({1, 1})}}});
  b.AddCompute(0, Lane::kCopy, program::Load{0}, {b.Write(x)}, {}, {});
  b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Read(x), b.Write(y)}, {}, {});
  Program program = std::move(b).Build();
  program.tasks[0].waits_previous.push_back(TaskId{1});
  program.tasks[1].waits.push_back(TaskId{0});
  FakeBackend backend(1, [](const program::Task&, FakeLoaded&) {});
  auto executor = *Executor::Create(program, backend);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(executor->NextInput<float>(kImages).ok());
    ASSERT_TRUE(executor->Enqueue({}).ok());
  }
  EXPECT_THAT(backend.latest->calls,
              ElementsAre("d0 copy awaits 1 of step -1", "launch 0 of step 0", "d0 compute awaits 0 of step 0",
                          "launch 1 of step 0", "d0 copy awaits 1 of step 0", "launch 0 of step 1",
                          "d0 compute awaits 0 of step 1", "launch 1 of step 1"));
  EXPECT_THAT(backend.latest->fenced_at, ElementsAre(0, 4)) << "a fence before all of each step";
}

TEST_F(ExecutorTest, TasksAreLaunchedInTheProgramsOrder) {
  Enqueue(1);
  ASSERT_EQ(loaded().calls.size(), two_.program.tasks.size());
  for (size_t i = 0; i < loaded().calls.size(); ++i) EXPECT_EQ(loaded().calls[i], absl::StrCat("launch ", i, " of step 0"));
}

TEST_F(ExecutorTest, ThreeStepsKeepTheirOwnImagesAndResultsInTwoSlots) {
  Enqueue(1);
  Enqueue(2);
  EXPECT_DOUBLE_EQ(CollectScored(*executor_)->loss, 2);  // two pixels of 1 for each label
  Enqueue(3);
  EXPECT_DOUBLE_EQ(CollectScored(*executor_)->loss, 4);
  EXPECT_DOUBLE_EQ(CollectScored(*executor_)->loss, 6);
}

TEST_F(ExecutorTest, NextInputWaitsForTheStepTwoBeforeAlone) {
  Enqueue(1);
  Enqueue(2);
  EXPECT_THAT(loaded().calls, ::testing::Not(::testing::Contains(HasSubstr("synchronize"))));
  ASSERT_TRUE(executor_->NextInput<float>(kImages).ok());
  EXPECT_EQ(loaded().calls.back(), "synchronize 0");
}

TEST_F(ExecutorTest, HitsAreThoseOfTheSumsAndTheLossIsAMeanOverLabels) {
  const std::vector<float> images = {1, 2, 3, 4, 5, 6, 7, 8};
  absl::StatusOr<ScoredStep> result = RunStep(*executor_, images, {0, -1, 2, 1}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->labels, 3);
  EXPECT_DOUBLE_EQ(result->loss, 36.0 / 3);
  EXPECT_EQ(result->top1_hits, 1 + 5);
  EXPECT_EQ(result->top5_hits, 10 + 50);
  EXPECT_EQ(result->not_finite, "");
  EXPECT_EQ(result->not_finite_device, -1);
}

TEST_F(ExecutorTest, PaddingAloneGivesALossOfZero) {
  absl::StatusOr<ScoredStep> result = RunStep(*executor_, std::vector<float>(8), {-1, -1, -1, -1}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->labels, 0);
  EXPECT_EQ(result->loss, 0);
}

TEST_F(ExecutorTest, ScalarsReachEveryDevice) {
  ASSERT_TRUE(RunStep(*executor_, std::vector<float>(8), {0, -1, 2, 1}, {.learning_rate = 0.25, .step = 7, .seed = 9}).ok());
  for (BufferId scalars : two_.scalars) {
    const std::vector<double>& values = loaded().memory[scalars.value];
    EXPECT_EQ(values[program::StepScalar::kLearningRate], 0.25);
    EXPECT_EQ(values[program::StepScalar::kStep], 7);
    EXPECT_EQ(values[program::StepScalar::kSeed], 9);
  }
  const auto look = [](size_t) { return absl::OkStatus(); };
  ASSERT_TRUE(executor_->EnqueueWhileReading({.learning_rate = 0.5, .step = 8, .seed = 9}, look).ok());
  ASSERT_TRUE(executor_->Collect().ok());
  for (BufferId scalars : two_.scalars) EXPECT_EQ(loaded().memory[scalars.value][program::StepScalar::kStep], 8);
}

// What changes a parameter is launched after the look at it; all is launched, whatever the looks say.
TEST(ExecutorWhileReading, LooksAtEachParameterBeforeItsFirstWriteIsLaunched) {
  program::Builder b("update", program::Mode::kTrain, 1, DType::kF32, {{"data", 1}});
  const program::Shape shape = {4};
  std::vector<BufferId> values;
  for (const char* name : {"frozen", "late", "early"}) {
    values.push_back(b.AddBuffer(0, name, DType::kF32, shape, program::Lifetime::kPersistent));
    program::Parameter parameter{.name = name, .shape = shape};
    parameter.value() = {{values.back(), Region::Whole(shape)}};
    b.AddParameter(parameter);
  }
  for (int from : {0, 1}) {  // 0: frozen to early; 1: late to late
    const BufferId to = from == 0 ? values[2] : values[1];
    const BufferId x = b.AddBuffer(0, "x", DType::kF32, shape);
    b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Read(values[from]), b.Write(x)}, {}, {"read"});
    b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Read(x), b.Write(to)}, {}, {"write"});
  }
  const Program program = std::move(b).Build();
  FakeBackend backend(1, [](const program::Task&, FakeLoaded&) {});
  const std::unique_ptr<Executor> executor = *Executor::Create(program, backend);
  for (const bool fails : {false, true}) {
    backend.latest->calls.clear();
    const absl::Status status = executor->EnqueueWhileReading({}, [&](size_t parameter) -> absl::Status {
      backend.latest->calls.push_back(absl::StrCat("look at ", program.parameters[parameter].name));
      return fails ? absl::DataLossError("no more") : absl::OkStatus();
    });
    const int64_t step = fails ? 1 : 0;
    const auto launch = [&](int task) { return absl::StrFormat("launch %d of step %d", task, step); };
    EXPECT_EQ(status, fails ? absl::DataLossError("no more") : absl::OkStatus());
    std::vector<std::string> expected = {absl::StrFormat("step %d in parts", step),
                                         launch(0),
                                         "look at early",
                                         launch(1),
                                         launch(2),
                                         "look at late",
                                         launch(3),
                                         "look at frozen"};
    if (fails)
      std::erase_if(expected, [](const std::string& call) { return call == "look at late" || call == "look at frozen"; });
    EXPECT_EQ(backend.latest->calls, expected);
    EXPECT_EQ(backend.latest->fenced_at, std::vector<size_t>(step + 1)) << "before all else of each step";
    EXPECT_EQ(executor->in_flight(), step + 1);
  }
}

TEST_F(ExecutorTest, OfGradientsThatAreNotFiniteTheLowestDevicesFirstIsNamed) {
  loaded().memory[two_.flags[0].value] = {1, 0};
  loaded().memory[two_.flags[1].value] = {0, 0};
  ScoredStep result = Run();
  EXPECT_EQ(result.not_finite, "gradient of b");
  EXPECT_EQ(result.not_finite_layer, "second");
  EXPECT_EQ(result.not_finite_device, 0);
  loaded().memory[two_.flags[0].value] = {1, 1};
  result = Run();
  EXPECT_EQ(result.not_finite, "gradient of a");
  EXPECT_EQ(result.not_finite_layer, "first");
  EXPECT_EQ(result.not_finite_device, 1);
}

// Each device's own gradients are finite, and their sum over the devices is not.
TEST(ExecutorGate, ThatIsClosedIsToldThoughNoDeviceHasAGradientThatIsNotFinite) {
  TwoDevices two;
  Program& program = two.program;
  program::Buffer buffer = program.buffer(two.metrics[0]);
  buffer.id = buffer.layout_as = BufferId{static_cast<int32_t>(program.buffers.size())};
  buffer.shape = {program::Gate::kCount};
  program.buffers.push_back(buffer);
  program.outputs.push_back({.kind = Output::Kind::kGate,
                             .name = "gate",
                             .shape = buffer.shape,
                             .pieces = {{buffer.id, Region::Whole(buffer.shape)}}});
  program::Task store{.id = TaskId{static_cast<int32_t>(program.tasks.size())}, .device = 0, .lane = Lane::kCopy};
  store.body = program::Compute{program::Store{static_cast<int>(program.outputs.size()) - 1}};
  store.uses = {{buffer.id, Region::Whole(buffer.shape), program::Access::kRead}};
  program.tasks.push_back(store);
  FakeBackend backend(2, [&two](const program::Task& task, FakeLoaded& loaded) { two.Meaning(task, loaded); });
  const std::unique_ptr<Executor> executor = *Executor::Create(program, backend);
  const auto result = [&](double is_open, double is_finite) {
    for (BufferId flags : two.flags) backend.latest->memory[flags.value] = {is_finite, is_finite};
    backend.latest->memory[buffer.id.value] = {is_open, 0.5};
    return *RunStep(*executor, std::vector<float>(8, 1), {0, 1, 2, 1}, {});
  };
  EXPECT_FALSE(result(1, 1).is_gate_closed);
  EXPECT_EQ(result(1, 1).not_finite, "");
  const ScoredStep by_sum = result(0, 1), by_one = result(0, 0);
  EXPECT_TRUE(by_sum.is_gate_closed);
  EXPECT_EQ(by_sum.not_finite, "norm of the gradients' sums over all devices");
  EXPECT_EQ(by_sum.not_finite_layer, "");
  EXPECT_EQ(by_sum.not_finite_device, -1);
  EXPECT_TRUE(by_one.is_gate_closed);
  EXPECT_EQ(by_one.not_finite, "gradient of a");
}

// Here the last loss is that of device 0 alone.
TEST(ExecutorLosses, AreSummedAndHitsAreThoseOfTheLast) {
  TwoDevices two;
  const int last = static_cast<int>(two.program.outputs.size());
  two.program.outputs.push_back({.kind = Output::Kind::kMetrics,
                                 .name = "last",
                                 .layer = "last",
                                 .shape = {program::Metric::kCount},
                                 .pieces = {{two.metrics[0], Region::Whole({program::Metric::kCount})}}});
  const auto stores_metrics = [&](const program::Task& task) {
    return task.device == 1 && std::holds_alternative<program::Compute>(task.body) && task.uses.size() == 1 &&
           task.uses[0].buffer == two.metrics[1];
  };
  const auto found = std::find_if(two.program.tasks.begin(), two.program.tasks.end(), stores_metrics);
  ASSERT_NE(found, two.program.tasks.end());
  program::Task store = *found;
  store.id = TaskId{static_cast<int32_t>(two.program.tasks.size())};
  store.device = 0;
  store.uses[0].buffer = two.metrics[0];
  std::get<program::Compute>(store.body).op = program::Store{last};
  two.program.tasks.push_back(store);
  FakeBackend backend(2, [&two](const program::Task& task, FakeLoaded& loaded) { two.Meaning(task, loaded); });
  const std::unique_ptr<Executor> executor = *Executor::Create(two.program, backend);
  for (BufferId flags : two.flags) backend.latest->memory[flags.value] = {1, 1};
  const absl::StatusOr<ScoredStep> result = RunStep(*executor, {1, 1, 1, 1, 2, 2, 2, 2}, {0, 1, -1, 0}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->labels, 2);
  EXPECT_EQ(result->top1_hits, 1);
  EXPECT_EQ(result->top5_hits, 10);
  EXPECT_EQ(result->loss, (4 + 8 + 4) / 2.0);
}

// Flags are of trained parameters, which stand before statistics.
TEST(ExecutorStatistics, AreNotTakenForParametersWhoseGradientIsNotFinite) {
  TwoDevices two;
  // So many that a flag of each would be read behind the memory of the flags, where there are zeros among what is there.
  for (int i = 0; i < 100; ++i) {
    two.program.parameters.push_back(
        {.name = "norm.running_mean", .layer = "norm", .role = program::StateRole::kStatistic, .shape = {3}});
  }
  FakeBackend backend(2, [&two](const program::Task& task, FakeLoaded& loaded) { two.Meaning(task, loaded); });
  const std::unique_ptr<Executor> executor = *Executor::Create(two.program, backend);
  const auto result = [&](double of_a, double of_b) {
    for (BufferId flags : two.flags) backend.latest->memory[flags.value] = {of_a, of_b};
    absl::StatusOr<absl::Span<float>> images = executor->NextInput<float>(kImages);
    std::fill(images->begin(), images->end(), 1.0f);
    absl::StatusOr<absl::Span<int32_t>> labels = executor->NextInput<int32_t>(kLabels);
    std::fill(labels->begin(), labels->end(), 1);
    EXPECT_TRUE(executor->Enqueue({}).ok());
    return *executor->Collect();
  };
  EXPECT_EQ(result(1, 1).not_finite, "");
  EXPECT_EQ(result(1, 0).not_finite, "gradient of b");
  EXPECT_EQ(result(1, 0).not_finite_layer, "second");
  EXPECT_EQ(result(0, 1).not_finite, "gradient of a");
}

TEST_F(ExecutorTest, ALossThatIsNotFiniteComesBeforeGradients) {
  for (double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    loaded().memory[two_.flags[1].value] = {1, 0};
    std::vector<float> images(8, 1);
    images[6] = static_cast<float>(bad);
    absl::StatusOr<ScoredStep> result = RunStep(*executor_, images, {0, 1, 2, 1}, {});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->not_finite, "loss");
    EXPECT_EQ(result->not_finite_layer, "loss");
    EXPECT_EQ(result->not_finite_device, 1) << "the one whose gradient tells";
    EXPECT_FALSE(std::isfinite(result->loss));
    EXPECT_EQ(result->labels, 4);
    loaded().memory[two_.flags[1].value] = {1, 1};
    result = RunStep(*executor_, images, {0, 1, 2, 1}, {});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->not_finite, "loss");
    EXPECT_EQ(result->not_finite_device, -1) << "no gradient tells";
  }
}

TEST_F(ExecutorTest, AGradientIsPutTogetherFromPiecesOfBothTypes) {
  EXPECT_EQ(executor_->ReadOutput(two_.program.outputs[2]).status().code(), absl::StatusCode::kFailedPrecondition);
  loaded().memory[two_.gradients[0].value] = {0.1, 2};
  loaded().memory[two_.gradients[1].value] = {0.1, 4};
  Run();
  absl::StatusOr<std::vector<double>> gradient = executor_->ReadOutput(two_.program.outputs[2]);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(*gradient, ElementsAre(double{0.1f}, 2, 0.1, 4));
  EXPECT_EQ(executor_->ReadOutput(two_.program.outputs[1]).status().code(), absl::StatusCode::kFailedPrecondition);
  const Output copy = two_.program.outputs[2];
  EXPECT_EQ(executor_->ReadOutput(copy).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExecutorTest, TheGradientIsThatOfTheStepCollectedNotOfTheOneInFlight) {
  loaded().memory[two_.gradients[0].value] = {1, 1};
  Enqueue(1);
  Enqueue(2);
  ASSERT_TRUE(executor_->Collect().ok());
  loaded().memory[two_.gradients[0].value] = {5, 5};
  EXPECT_EQ(executor_->ReadOutput(two_.program.outputs[2])->front(), 1);
  ASSERT_TRUE(executor_->Collect().ok());
  EXPECT_EQ(executor_->ReadOutput(two_.program.outputs[2])->front(), 5);
}

TEST_F(ExecutorTest, AFailedStepIsReportedByWhoeverWaitsForIt) {
  loaded().fails[0] = absl::InternalError("task 3 on device 0 failed");
  Enqueue(1);
  Enqueue(2);
  EXPECT_EQ(executor_->NextInput<float>(kImages).status().message(), "task 3 on device 0 failed");
  EXPECT_EQ(executor_->Collect().status().message(), "task 3 on device 0 failed");
}

TEST_F(ExecutorTest, AfterAFailedStepItDrainsAndRunsNoMore) {
  Enqueue(1);
  ASSERT_TRUE(executor_->Collect().ok());
  loaded().fails[1] = absl::InternalError("task 3 on device 0 failed");
  Enqueue(2);
  Enqueue(3);
  EXPECT_FALSE(executor_->Collect().ok());
  const auto is_told = [](const absl::Status& status) {
    EXPECT_EQ(status.message(),
              "an earlier step of this executor failed, and another executor is needed: task 3 on device 0 failed");
  };
  is_told(executor_->Collect().status());
  EXPECT_EQ(loaded().calls.back(), "synchronize 2") << "the step behind it has ended, too";
  EXPECT_EQ(executor_->in_flight(), 0);
  EXPECT_EQ(executor_->Collect().status().message(), "no step is in flight");
  is_told(executor_->Enqueue({}));
  is_told(executor_->NextInput<float>(kImages).status());
  is_told(executor_->ReadOutput(executor_->program().outputs[2]).status());
}

TEST_F(ExecutorTest, ALearningRateThatIsNotFiniteIsRefused) {
  for (double rate : {kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(executor_->Enqueue({.learning_rate = rate}).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(executor_->in_flight(), 0);
}

TEST_F(ExecutorTest, AThirdStepInFlightAndACollectOfNoneAreRefused) {
  EXPECT_EQ(executor_->Collect().status().code(), absl::StatusCode::kFailedPrecondition);
  Enqueue(1);
  EXPECT_EQ(RunStep(*executor_, std::vector<float>(8), {0, 0, 0, 0}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Enqueue(2);
  EXPECT_EQ(executor_->in_flight(), 2);
  EXPECT_EQ(executor_->Enqueue({}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExecutorTest, SpansThatDoNotFitAndSeedsFrom2To53AreRefused) {
  for (const auto& [images, labels] : {std::pair{7, 4}, {8, 3}, {9, 4}}) {
    const absl::Status status = RunStep(*executor_, std::vector<float>(images), std::vector<int32_t>(labels), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    const bool of_images = images != 8;
    EXPECT_THAT(std::string(status.message()), HasSubstr(of_images ? "\"images\": expected 8" : "\"labels\": expected 4"));
  }
  EXPECT_EQ(executor_->Enqueue({.seed = uint64_t{1} << 53}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(executor_->Enqueue({.seed = (uint64_t{1} << 53) - 1}).ok());
}

TEST(ExecutorCreate, RefusesTooFewDevicesOtherScalarsAndWhatTheBackendRefuses) {
  TwoDevices two;
  FakeBackend one(1), backend(2);
  EXPECT_EQ(Executor::Create(two.program, one).status().code(), absl::StatusCode::kFailedPrecondition);
  backend.refusal = absl::ResourceExhaustedError("too large");
  EXPECT_EQ(Executor::Create(two.program, backend).status(), backend.refusal);
  backend.refusal = absl::OkStatus();
  Program program = two.program;
  program.inputs[2].shape = {5};
  EXPECT_EQ(Executor::Create(program, backend).status().code(), absl::StatusCode::kInvalidArgument);
}

// Inputs are found by name and type; what they mean is for those who fill them.
TEST(ExecutorInputs, AreFoundByNameAndType) {
  TwoDevices two;
  two.program.inputs[0].name = "pictures";
  FakeBackend backend(2, [&two](const program::Task& task, FakeLoaded& loaded) { two.Meaning(task, loaded); });
  const std::unique_ptr<Executor> executor = *Executor::Create(two.program, backend);
  ASSERT_TRUE(executor->NextInput<float>("pictures").ok());
  EXPECT_EQ(executor->NextInput<float>("pictures")->size(), kBatch * kPixels);
  EXPECT_FALSE(executor->HasInput(kImages));
  EXPECT_THAT(std::string(executor->NextInput<float>(kImages).status().message()),
              HasSubstr("expected an input \"images\" of f32, found none"));
  EXPECT_THAT(std::string(executor->NextInput<float>("a\nb").status().message()), HasSubstr("an input \"a\\nb\" of f32"));
  EXPECT_THAT(std::string(executor->NextInput<float>("picture").status().message()),
              HasSubstr("found none; did you mean \"pictures\"?"));
  EXPECT_THAT(std::string(executor->NextInput<uint8_t>("pictures").status().message()),
              HasSubstr("\"pictures\" of u8, found f32 [4,2]"));
}

TEST(ExecutorCreate, AProgramMayHaveNeitherImagesNorLabels) {
  Builder b("bare", program::Mode::kEval, 0, DType::kF32, {{"data", 1}});
  const BufferId x = b.AddBuffer(0, "x", DType::kF32, {1});
  b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Write(x)}, {}, {});
  const Program program = std::move(b).Build();
  FakeBackend backend(1, [](const program::Task&, FakeLoaded&) {});
  auto executor = *Executor::Create(program, backend);
  EXPECT_FALSE(executor->HasInput(kImages));
  absl::StatusOr<ScoredStep> result = RunStep(*executor, {}, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->labels, 0);
}

}  // namespace
}  // namespace colonnade::engine
