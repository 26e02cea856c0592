// That a run goes on from a checkpoint, whatever plan wrote it, as if it had never stopped.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/backend.h"
#include "engine/checkpoint.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"
#include "tests/open_stream.h"
#include "tests/sanitized.h"

namespace colonnade::engine {
namespace {

using ::testing::HasSubstr;

struct NamedDevices {
  const char* plan;
  int devices;
  partition::Reduction reduction = partition::Reduction::kAllReduce;
};
constexpr NamedDevices kPlans[] = {{"single", 1},
                                   {"data", 2, partition::Reduction::kSharded},
                                   {"model", 2},
                                   {"hybrid", 4, partition::Reduction::kSharded},
                                   {"data", 4}};
constexpr int64_t kBatch = 8;
// The run stops after so many steps, in the midst of an epoch; then so many follow on the same plan, and on another.
constexpr int64_t kBefore = 5, kAfter = kSanitized ? 6 : 50, kAfterOnAnother = kSanitized ? 4 : 20;

// Random images, and a note of which of them were asked for.
class NotedSamples : public DataSource {
 public:
  explicit NotedSamples(const program::Shape& shape)
      : stream_(OpenStream("synthetic", {}, {.synthetic_shape = shape, .synthetic_classes = 10})) {}
  std::string description() const override { return stream_->description(); }
  int64_t size() const override { return stream_->size(); }
  const program::Shape& sample_shape() const override { return stream_->sample_shape(); }
  int64_t classes() const override { return stream_->classes(); }
  const program::PixelScaling& scaling() const override { return stream_->scaling(); }
  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override {
    for (size_t i = 0; i < labels.size(); ++i) positions.push_back(position + static_cast<int64_t>(i));
    return stream_->Read(position, images, labels);
  }
  std::vector<int64_t> positions;

 private:
  std::unique_ptr<data::Pipeline> stream_;
};

RunPosition At(int64_t step) { return {.step = step, .sample = step * kBatch}; }

struct Training {
  program::Program program;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;
  program::Shape sample_shape;

  Training(const std::string& model, const NamedDevices& on,
           const partition::UpdateOptions& update = {.weight_decay = 5e-4}) {
    const layers::LayerGraph graph = *models::BuildModel(
        model, model == "lenet" ? models::ModelOptions{} : models::ModelOptions{.input_size = 16, .width = 0.25});
    sample_shape = graph.nodes[0].sample_shape;
    partition::Plan plan = *partition::NamedPlan(on.plan, graph, {.devices = on.devices, .global_batch = kBatch});
    plan.reduction = on.reduction;
    program = *partition::Lower(graph, plan,
                                {.global_batch = kBatch, .pixels = NotedSamples(sample_shape).scaling(), .update = update});
    backend = *cpu::MakeCpuBackend({.devices = on.devices, .threads_per_device = 1});
    executor = *Executor::Create(program, *backend);
    EXPECT_TRUE(InitializeParameters(executor->loaded(), 1).ok());
  }
  std::vector<double> Train(int64_t first_step, int64_t steps, NotedSamples& samples) {
    const absl::StatusOr<TrainReport> report = engine::Train(
        *executor, samples,
        {.start = At(first_step),
         .steps = steps,
         .learning_rate = {.shape = LearningRatePolicy::Shape::kStep, .base = 1e-3, .factor = 0.5, .every = 8}});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->losses : std::vector<double>();
  }
  std::vector<std::vector<char>> State() const {
    StateCopy copy;
    EXPECT_TRUE(CopyState(executor->loaded(), copy).ok());
    std::vector<std::vector<char>> bytes;
    for (StateCopy::Tensor& tensor : copy.tensors) bytes.push_back(std::move(tensor.bytes));
    return bytes;
  }
};

class SavedState : public Folder {};
class Resume : public Folder, public ::testing::WithParamInterface<const char*> {};

TEST_P(Resume, UnderEveryPlanFromEveryPlan) {
  for (const NamedDevices& from : kPlans) {
    Training run(GetParam(), from);
    NotedSamples samples(run.sample_shape);
    std::vector<double> expected = run.Train(0, kBefore, samples);
    ASSERT_NE(kBefore * kBatch % samples.size(), 0) << "inside an epoch";
    ASSERT_TRUE(SaveCheckpoint(In("c"), run.executor->loaded(), {.step = kBefore, .sample = kBefore * kBatch}).ok());
    const auto state = run.State();
    expected = run.Train(kBefore, kAfter, samples);
    for (const NamedDevices& to : kPlans) {
      SCOPED_TRACE(absl::StrCat(from.plan, " on ", from.devices, " to ", to.plan, " on ", to.devices));
      const bool same = &from == &to;
      Training other(GetParam(), to);
      const absl::StatusOr<RunPosition> position = RestoreCheckpoint(In("c"), other.executor->loaded());
      ASSERT_TRUE(position.ok()) << position.status();
      EXPECT_EQ(position->step, kBefore);
      EXPECT_EQ(position->sample, kBefore * kBatch);
      EXPECT_EQ(other.State(), state);
      NotedSamples rest(run.sample_shape);
      const std::vector<double> losses = other.Train(kBefore, same ? kAfter : kAfterOnAnother, rest);
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i] / expected[i], 1, same ? 0 : 1e-4) << "step " << i << " after the checkpoint";
      }
      EXPECT_EQ(rest.positions.front(), kBefore * kBatch);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Resume, ::testing::Values("lenet", "resnet20"));

// Evaluation has no optimiser: of its state the checkpoint's parameters and running statistics are taken.
TEST_F(SavedState, AnEvaluationTakesTheParametersAlone) {
  const auto expect_the_same = [&](Training& run) {
    NotedSamples samples(run.sample_shape);
    run.Train(0, kBefore, samples);
    ASSERT_TRUE(SaveCheckpoint(In("c"), run.executor->loaded(), {.step = kBefore}).ok());
    const layers::LayerGraph graph = *models::BuildModel("lenet", {});
    const program::Program eval = *partition::Lower(graph, *partition::NamedPlan("single", graph, {.global_batch = kBatch}),
                                                    {.mode = program::Mode::kEval, .global_batch = kBatch});
    const auto backend = *cpu::MakeCpuBackend({.devices = 1, .threads_per_device = 1});
    const auto executor = *Executor::Create(eval, *backend);
    const absl::StatusOr<RunPosition> position = RestoreCheckpoint(In("c"), executor->loaded());
    ASSERT_TRUE(position.ok()) << position.status();
    const auto trained = *ReadTensors(run.executor->loaded()), restored = *ReadTensors(executor->loaded());
    ASSERT_EQ(restored.size(), trained.size());
    for (size_t i = 0; i < trained.size(); ++i) EXPECT_EQ(restored[i].values, trained[i].values) << trained[i].name;
  };
  Training sgd("lenet", kPlans[2]), adamw("lenet", kPlans[2], {.optimizer = program::AdamW{}});
  expect_the_same(sgd);
  expect_the_same(adamw);
}

TEST_F(SavedState, IsThatOfAnExecutorWhoseBackendHasGone) {
  Training run("lenet", kPlans[2]), other("lenet", kPlans[2]);
  run.backend.reset();
  NotedSamples samples(run.sample_shape), same(run.sample_shape);
  EXPECT_EQ(run.Train(0, kBefore, samples), other.Train(0, kBefore, same));
  EXPECT_EQ(run.State(), other.State());
}

TEST_F(SavedState, OfAnotherOptimiserIsRefusedByWhatItKeeps) {
  Training sgd("lenet", kPlans[2]), adamw("lenet", kPlans[2], {.optimizer = program::AdamW{}});
  const auto refused = [&](Training& saved, Training& restored) {
    EXPECT_TRUE(SaveCheckpoint(In("c"), saved.executor->loaded(), {}).ok());
    const auto before = restored.State();
    const absl::Status status = RestoreCheckpoint(In("c"), restored.executor->loaded()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(restored.State(), before);
    return std::string(status.message());
  };
  EXPECT_EQ(refused(sgd, adamw), In("c") +
                                     ": expected second moments, which the Program's optimiser keeps, found none; "
                                     "another optimiser wrote the checkpoint");
  EXPECT_EQ(refused(adamw, sgd), In("c") +
                                     ": expected no second moments, which the Program's optimiser does not keep, "
                                     "found some; another optimiser wrote the checkpoint");
}

TEST_F(SavedState, WhatIsNotFiniteIsNotSaved) {
  Training run("lenet", kPlans[0]);
  std::vector<NamedTensor> bad = *ReadTensors(run.executor->loaded());
  bad[1].values[0] = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(WriteTensors(run.executor->loaded(), bad).ok());
  EXPECT_EQ(SaveCheckpoint(In("c"), run.executor->loaded(), {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadManifest(In("c")).status().code(), absl::StatusCode::kNotFound);
}

// What an optimiser keeps is part of the state, all of it, and the steps go on being counted.
TEST_F(SavedState, OfAdamWGoesOnWithTheSameBits) {
  const partition::UpdateOptions adamw{.optimizer = program::AdamW{}, .weight_decay = 0.01, .clip_norm = 1};
  Training run("lenet", kPlans[3], adamw);
  NotedSamples samples(run.sample_shape);
  run.Train(0, kBefore, samples);
  StateCopy copy;
  ASSERT_TRUE(CopyState(run.executor->loaded(), copy).ok());
  EXPECT_EQ(copy.views(StateKind::kSecondMoment).size(), copy.views(StateKind::kMomentum).size());
  ASSERT_TRUE(WriteCheckpoint(In("c"), {.position = {.step = kBefore, .sample = kBefore * kBatch}}, copy).ok());
  EXPECT_TRUE(VerifyCheckpoint(In("c")).ok());
  const std::vector<double> expected = run.Train(kBefore, kAfterOnAnother, samples);
  Training same("lenet", kPlans[3], adamw), other("lenet", kPlans[4], adamw), sgd("lenet", kPlans[3]);
  for (Training* to : {&same, &other}) {
    ASSERT_TRUE(RestoreCheckpoint(In("c"), to->executor->loaded()).ok());
    NotedSamples rest(run.sample_shape);
    const std::vector<double> losses = to->Train(kBefore, kAfterOnAnother, rest);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / expected[i], 1, to == &same ? 0 : 1e-3) << i;
  }
  EXPECT_EQ(RestoreCheckpoint(In("c"), sgd.executor->loaded()).status().code(), absl::StatusCode::kInvalidArgument);
}

// A run whose batch was changed goes on with the samples that come next, and each is used once.
TEST(ResumeWithAnotherBatch, EverySampleOfTheEpochIsUsedOnce) {
  Training run("lenet", kPlans[1]);
  NotedSamples samples(run.sample_shape);
  run.Train(0, 3, samples);
  const absl::StatusOr<TrainReport> rest =
      engine::Train(*run.executor, samples, {.start = {.step = 7, .sample = 3 * kBatch}, .steps = 3});
  ASSERT_TRUE(rest.ok()) << rest.status();
  std::vector<int64_t> all(6 * kBatch);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(samples.positions, all);
}

// Copies of the state while training goes on, of each step that is asked for: those of a training that stops there, and the
// training is that which nothing was copied of.
TEST(Copies, AreTheStateBetweenTwoStepsAndChangeNothing) {
  constexpr int64_t kFirst = 2, kSteps = 7;
  for (const char* model : {"lenet", "resnet20"}) {
    for (const NamedDevices& on : kPlans) {
      SCOPED_TRACE(absl::StrCat(model, " ", on.plan, " on ", on.devices));
      Training run(model, on), stops(model, on);
      NotedSamples samples(run.sample_shape), same(run.sample_shape);
      std::map<int64_t, StateCopy> copies;
      TrainOptions options{.start = At(kFirst), .steps = kSteps, .learning_rate = {.base = 1e-3}};
      std::vector<int64_t> asked, ended;
      options.copies = {.is_due =
                            [&](int64_t step) {
                              asked.push_back(step);
                              return step % 3 == 0;
                            },
                        .begin = [&](int64_t step) -> absl::StatusOr<StateCopy*> {
                          EXPECT_EQ(run.executor->in_flight(), 0);
                          return &copies[step];
                        },
                        .end =
                            [&](int64_t step) {
                              ended.push_back(step);
                              return absl::OkStatus();
                            }};
      const absl::StatusOr<TrainReport> report = engine::Train(*run.executor, samples, options);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->held_up.has_value());
      EXPECT_EQ(asked, (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
      EXPECT_EQ(ended, (std::vector<int64_t>{3, 6}));
      std::vector<double> losses;
      for (int64_t step = kFirst; step < kFirst + kSteps; ++step) {
        const absl::StatusOr<TrainReport> one =
            engine::Train(*stops.executor, same, {.start = At(step), .learning_rate = options.learning_rate});
        ASSERT_TRUE(one.ok()) << one.status();
        losses.push_back(one->losses[0]);
        if (!copies.contains(step + 1)) continue;
        std::vector<std::vector<char>> copied;
        for (const StateCopy::Tensor& tensor : copies[step + 1].tensors) copied.push_back(tensor.bytes);
        EXPECT_TRUE(copied == stops.State()) << "after " << step + 1;
      }
      EXPECT_EQ(report->losses, losses);
    }
  }
}

TEST(Copies, AreLackingWhereTheyFailAndTrainingEnds) {
  Training run("lenet", kPlans[3]);
  NotedSamples samples(run.sample_shape);
  StateCopy copy;
  TrainOptions options{.steps = 7, .learning_rate = {.base = 1e-3}};
  options.copies = {.is_due = [](int64_t step) { return step == 3; },
                    .begin = [](int64_t step) -> absl::StatusOr<StateCopy*> {
                      return absl::DataLossError(absl::StrCat("begin at ", step));
                    },
                    .end = [](int64_t step) { return absl::DataLossError(absl::StrCat("end at ", step)); }};
  EXPECT_EQ(engine::Train(*run.executor, samples, options).status(), absl::DataLossError("begin at 3"));
  EXPECT_EQ(run.executor->in_flight(), 0);
  options.copies.begin = [&](int64_t) { return &copy; };
  EXPECT_EQ(engine::Train(*run.executor, samples, options).status(), absl::DataLossError("end at 3"));
  EXPECT_EQ(run.executor->in_flight(), 0);
}

// As where a device's memory changes by itself.
TEST(Copies, ThatDifferFromDeviceToDeviceEndTheRunAndAreNotSaved) {
  Training run("resnet20", kPlans[4]);
  ASSERT_GT(run.program.parameters[0].value().size(), 1u);
  NotedSamples samples(run.sample_shape);
  for (StateKind kind : {StateKind::kValue, StateKind::kMomentum}) {  // of which the next values are made
    const program::Parameter& parameter = run.program.parameters[0];
    const program::Piece& piece = parameter.pieces(kind)[1];
    std::vector<float> values(piece.region.elements());
    const absl::Span<char> bytes(reinterpret_cast<char*>(values.data()), values.size() * sizeof(float));
    ASSERT_TRUE(run.executor->loaded().ReadBytes(piece.buffer, bytes).ok());
    values[5] += 0.25f;
    ASSERT_TRUE(run.executor->loaded().WriteBytes(piece.buffer, bytes).ok());
    StateCopy copy;
    bool is_saved = false;
    TrainOptions options{.steps = 4, .learning_rate = {.base = 1e-3}};
    options.copies = {.is_due = [](int64_t step) { return step == 2; },
                      .begin = [&](int64_t) { return &copy; },
                      .end =
                          [&](int64_t) {
                            is_saved = true;
                            return absl::OkStatus();
                          }};
    const absl::Status status = engine::Train(*run.executor, samples, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("the state after 2 steps cannot be saved: value of \"", parameter.name,
                                       "\": devices 0 and 1 hold copies that differ")));
    EXPECT_FALSE(is_saved);
    EXPECT_EQ(run.executor->in_flight(), 0);
    ASSERT_TRUE(InitializeParameters(run.executor->loaded(), 1).ok());
  }
}

}  // namespace
}  // namespace colonnade::engine
