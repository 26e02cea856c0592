// Pauses between the steps of a training: when, with what in flight, and what they leave alone.

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cpu/backend.h"
#include "engine/state.h"
#include "engine/trace.h"
#include "engine/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "tests/open_stream.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// two_column on digits, ready to train and to test.
struct SmallRun {
  program::Program train_program, eval_program;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> train, eval;
  std::unique_ptr<data::Pipeline> train_images, test_images;

  SmallRun() : train_images(Images(true)), test_images(Images(false)) {
    absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {.width = 0.25});
    absl::StatusOr<partition::Plan> plan = partition::NamedPlan("hybrid", *graph, {.devices = 4, .global_batch = 32});
    EXPECT_TRUE(plan.ok()) << plan.status();
    partition::LowerOptions options{.global_batch = 32, .pixels = train_images->scaling()};
    train_program = *partition::Lower(*graph, *plan, options);
    options.mode = program::Mode::kEval;
    eval_program = *partition::Lower(*graph, *plan, options);
    backend = *cpu::MakeCpuBackend({.devices = 4, .threads_per_device = 1});
    train = *Executor::Create(train_program, *backend);
    eval = *Executor::Create(eval_program, *backend);
    EXPECT_TRUE(InitializeParameters(train->loaded(), 1).ok());
  }

  static std::unique_ptr<data::Pipeline> Images(bool train) {
    return OpenStream("digits", {.shuffle = train,
                                 .once = !train,
                                 .augment = train ? kShiftedByAPixel : data::AugmentOptions{},
                                 .moments = {.mean = {0.3}, .std = {0.35}}});
  }

  absl::StatusOr<TrainReport> Train(int64_t steps, Pauses pauses) {
    return engine::Train(*train, *train_images,
                         {.steps = steps, .learning_rate = {.base = 0.02}, .pauses = std::move(pauses)});
  }
};

bool Always(int64_t) { return true; }

TEST(Pauses, AreMadeBetweenStepsWhileNoneIsInFlight) {
  SmallRun run;
  std::vector<int64_t> asked, paused;
  const absl::StatusOr<TrainReport> report = run.Train(6, {.is_due =
                                                               [&](int64_t step) {
                                                                 asked.push_back(step);
                                                                 return step % 2 == 0;
                                                               },
                                                           .at = [&](int64_t step) -> absl::StatusOr<bool> {
                                                             paused.push_back(step);
                                                             EXPECT_EQ(run.train->in_flight(), 0);
                                                             return true;
                                                           }});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(asked, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(paused, ElementsAre(2, 4));
  EXPECT_THAT(report->losses, SizeIs(6));
}

TEST(Pauses, WithTestsInThemLeaveLossesAndWeightsAsTheyWouldBe) {
  SmallRun plain, tested;
  const absl::StatusOr<TrainReport> expected = plain.Train(12, {});
  const absl::StatusOr<TrainReport> report = tested.Train(12, {.is_due = Always, .at = [&](int64_t) -> absl::StatusOr<bool> {
                                                                 absl::StatusOr<EvalReport> test =
                                                                     Evaluate(*tested.eval, *tested.test_images);
                                                                 EXPECT_TRUE(test.ok()) << test.status();
                                                                 EXPECT_EQ(test->count, 360);
                                                                 return true;
                                                               }});
  ASSERT_TRUE(report.ok() && expected.ok()) << report.status() << expected.status();
  EXPECT_EQ(report->losses, expected->losses);
  const auto a = ReadTensors(plain.train->loaded()), b = ReadTensors(tested.train->loaded());
  for (size_t i = 0; i < a->size(); ++i) EXPECT_EQ((*a)[i].values, (*b)[i].values) << (*a)[i].name;
}

TEST(Pauses, EndTheTrainingWhereTheySaySo) {
  SmallRun run;
  const absl::StatusOr<TrainReport> report =
      run.Train(10, {.is_due = Always, .at = [](int64_t step) -> absl::StatusOr<bool> { return step < 4; }});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->losses, SizeIs(4));
  EXPECT_FALSE(report->stopped);
}

TEST(Pauses, EndTheTrainingWithTheirErrors) {
  SmallRun run;
  const absl::Status status =
      run.Train(10, {.is_due = Always, .at = [](int64_t) -> absl::StatusOr<bool> { return absl::DataLossError("disk"); }})
          .status();
  EXPECT_EQ(status, absl::DataLossError("disk"));
}

// Times without pauses are those of a training whose steps take milliseconds.
TEST(Pauses, AreNoTimeOfTheTraining) {
  SmallRun run;
  constexpr absl::Duration kPause = absl::Seconds(1);
  const absl::StatusOr<TrainReport> report = run.Train(8, {.is_due = [](int64_t step) { return step == 7; },
                                                           .at = [&](int64_t) -> absl::StatusOr<bool> {
                                                             absl::SleepFor(kPause);
                                                             return true;
                                                           }});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->elapsed, kPause);
  EXPECT_LT(report->step_times.back(), kPause);
  const std::vector<Breakdown> devices = BreakDown(report->last_steps, 4);
  EXPECT_LT(devices[0].idle, kPause / 2);  // of two steps around the pause it would be half of it
}

// The times of the second training's one step, not of the first's beside it.
TEST(Pauses, ATrainingHasNoStepOfTheOneBefore) {
  SmallRun run;
  const absl::StatusOr<TrainReport> first = run.Train(1, {});
  ASSERT_TRUE(first.ok()) << first.status();
  constexpr absl::Duration kBetween = absl::Seconds(1);
  absl::SleepFor(kBetween);
  const absl::StatusOr<TrainReport> second = run.Train(1, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->last_steps.events.size(), first->last_steps.events.size());
  EXPECT_LT(BreakDown(second->last_steps, 4)[0].idle, kBetween / 2);
}

}  // namespace
}  // namespace colonnade::engine
