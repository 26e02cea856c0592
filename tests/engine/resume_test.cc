// That a run goes on from a checkpoint, whatever plan wrote it, as if it had never stopped.

#include <string>
#include <vector>

#include "cpu/backend.h"
#include "data/dataset.h"
#include "data/sample_stream.h"
#include "engine/checkpoint.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/folder.h"
#include "tests/sanitized.h"

namespace colonnade::engine {
namespace {

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
      : stream_(*data::SampleStream::Create(
            *data::OpenDataset("synthetic", data::SplitOf::kTrain, {.synthetic_shape = shape, .synthetic_classes = 10}),
            {.seed = 1, .shuffle = true})) {}
  std::string description() const override { return stream_.description(); }
  int64_t size() const override { return stream_.size(); }
  const program::Shape& sample_shape() const override { return stream_.sample_shape(); }
  int64_t classes() const override { return stream_.classes(); }
  absl::Status Read(int64_t position, absl::Span<float> images, absl::Span<int32_t> labels) override {
    for (size_t i = 0; i < labels.size(); ++i) positions.push_back(position + static_cast<int64_t>(i));
    return stream_.Read(position, images, labels);
  }
  std::vector<int64_t> positions;

 private:
  data::SampleStream stream_;
};

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
    program = *partition::Lower(graph, plan, {.global_batch = kBatch, .update = update});
    backend = *cpu::MakeCpuBackend({.devices = on.devices, .threads_per_device = 1});
    executor = *Executor::Create(program, *backend);
    EXPECT_TRUE(InitializeParameters(program, executor->loaded(), 1).ok());
  }
  std::vector<double> Train(int64_t first_step, int64_t steps, NotedSamples& samples) {
    const absl::StatusOr<TrainReport> report = engine::Train(
        *executor, samples,
        {.first_step = first_step, .steps = steps, .learning_rate = {.base = 1e-3, .factor = 0.5, .every = 8}});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->losses : std::vector<double>();
  }
  std::vector<std::vector<char>> State() const {
    StateCopy copy;
    EXPECT_TRUE(ReadState(program, executor->loaded(), copy).ok());
    std::vector<std::vector<char>> bytes;
    for (StateCopy::Tensor& tensor : copy.tensors) bytes.push_back(std::move(tensor.bytes));
    return bytes;
  }
};

class ResumeOfAdamW : public Folder {};
class Resume : public Folder, public ::testing::WithParamInterface<const char*> {};

TEST_P(Resume, UnderEveryPlanFromEveryPlan) {
  for (const NamedDevices& from : kPlans) {
    Training run(GetParam(), from);
    NotedSamples samples(run.sample_shape);
    std::vector<double> expected = run.Train(0, kBefore, samples);
    ASSERT_NE(kBefore * kBatch % samples.size(), 0) << "inside an epoch";
    StateCopy copy;
    ASSERT_TRUE(ReadState(run.program, run.executor->loaded(), copy).ok());
    ASSERT_TRUE(WriteCheckpoint(In("c"), {.position = {.step = kBefore, .sample = kBefore * kBatch}}, copy).ok());
    const auto state = run.State();
    expected = run.Train(kBefore, kAfter, samples);
    for (const NamedDevices& to : kPlans) {
      SCOPED_TRACE(absl::StrCat(from.plan, " on ", from.devices, " to ", to.plan, " on ", to.devices));
      const bool same = &from == &to;
      Training other(GetParam(), to);
      ASSERT_TRUE(RestoreCheckpoint(In("c"), other.program, other.executor->loaded()).ok());
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

// What an optimiser keeps is part of the state, all of it, and the steps go on being counted.
TEST_F(ResumeOfAdamW, GoesOnWithTheSameBits) {
  const partition::UpdateOptions adamw{.optimizer = program::AdamW{}, .weight_decay = 0.01, .clip_norm = 1};
  Training run("lenet", kPlans[3], adamw);
  NotedSamples samples(run.sample_shape);
  run.Train(0, kBefore, samples);
  StateCopy copy;
  ASSERT_TRUE(ReadState(run.program, run.executor->loaded(), copy).ok());
  EXPECT_EQ(copy.views(StateKind::kSecondMoment).size(), copy.views(StateKind::kMomentum).size());
  ASSERT_TRUE(WriteCheckpoint(In("c"), {.position = {.step = kBefore, .sample = kBefore * kBatch}}, copy).ok());
  EXPECT_TRUE(VerifyCheckpoint(In("c")).ok());
  const std::vector<double> expected = run.Train(kBefore, kAfterOnAnother, samples);
  Training same("lenet", kPlans[3], adamw), other("lenet", kPlans[4], adamw), sgd("lenet", kPlans[3]);
  for (Training* to : {&same, &other}) {
    ASSERT_TRUE(RestoreCheckpoint(In("c"), to->program, to->executor->loaded()).ok());
    NotedSamples rest(run.sample_shape);
    const std::vector<double> losses = to->Train(kBefore, kAfterOnAnother, rest);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / expected[i], 1, to == &same ? 0 : 1e-3) << i;
  }
  EXPECT_EQ(RestoreCheckpoint(In("c"), sgd.program, sgd.executor->loaded()).code(), absl::StatusCode::kInvalidArgument);
}

// A run whose batch was changed goes on with the samples that come next, and each is used once.
TEST(ResumeWithAnotherBatch, EverySampleOfTheEpochIsUsedOnce) {
  Training run("lenet", kPlans[1]);
  NotedSamples samples(run.sample_shape);
  run.Train(0, 3, samples);
  const absl::StatusOr<TrainReport> rest =
      engine::Train(*run.executor, samples, {.first_step = 7, .steps = 3, .first_sample = 3 * kBatch});
  ASSERT_TRUE(rest.ok()) << rest.status();
  std::vector<int64_t> all(6 * kBatch);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(samples.positions, all);
}

// Nothing is in flight while training stands still, and what it stood still for ends it where it fails.
TEST(Pause, StandsStillBetweenTwoSteps) {
  Training run("lenet", kPlans[3]);
  NotedSamples samples(run.sample_shape);
  std::vector<int64_t> paused;
  TrainOptions options{.first_step = 2, .steps = 7, .learning_rate = {.base = 1e-3}};
  options.pauses_after = [](int64_t step) { return step % 3 == 0; };
  options.on_pause = [&](int64_t step) {
    EXPECT_EQ(run.executor->in_flight(), 0);
    paused.push_back(step);
    return absl::OkStatus();
  };
  ASSERT_TRUE(engine::Train(*run.executor, samples, options).ok());
  EXPECT_EQ(paused, (std::vector<int64_t>{3, 6}));
  options.on_pause = [](int64_t step) { return absl::DataLossError(absl::StrCat("at ", step)); };
  const absl::StatusOr<TrainReport> report = engine::Train(*run.executor, samples, options);
  EXPECT_EQ(report.status(), absl::DataLossError("at 3"));
  EXPECT_EQ(run.executor->in_flight(), 0);
}

}  // namespace
}  // namespace colonnade::engine
