// A training loop of one's own over engine::Executor, where engine::Train is not the loop that one wants: here the state of
// the best epoch is kept as a checkpoint, after each epoch in which the test loss has not fallen training goes back to it
// with half the learning rate, and training ends at a target.
//
// One executor runs the Program of training, another that of evaluation. Both are on the same devices and share the
// parameters by name, so the second always tests what the first has learnt.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/checkpoint.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "layers/graph.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

using namespace colonnade;  // NOLINT: an example

constexpr int64_t kBatch = 32, kMostEpochs = 20;
constexpr double kTarget = 0.93;
constexpr char kBest[] = "own_training_loop.best";

// What the steps of an epoch, or of a test, have come to.
struct Totals {
  double loss_sum = 0;
  int64_t hits = 0, labels = 0;

  double loss() const { return loss_sum / static_cast<double>(labels); }
  double accuracy() const { return static_cast<double>(hits) / static_cast<double>(labels); }
};

// Waits for the oldest step that is under way and adds its results.
absl::Status AddNext(engine::Executor& executor, Totals& totals) {
  ASSIGN_OR_RETURN(engine::ScoredStep step, engine::CollectScored(executor));
  if (!step.not_finite.empty()) return absl::OutOfRangeError("not finite: " + step.not_finite + " " + step.not_finite_layer);
  totals.loss_sum += step.loss * static_cast<double>(step.labels);  // the loss of a step is a mean over its labels
  totals.hits += step.top1_hits;
  totals.labels += step.labels;
  return absl::OkStatus();
}

// Steps first, first + 1, …: while the devices work on one, the host fills the memory of the next. Two may be under way.
absl::StatusOr<Totals> RunSteps(engine::Executor& executor, engine::DataSource& data, int64_t first, int64_t count,
                                double learning_rate) {
  Totals totals;
  for (int64_t step = first; step < first + count; ++step) {
    ASSIGN_OR_RETURN(absl::Span<uint8_t> images, executor.NextInput<uint8_t>(engine::kImages));
    ASSIGN_OR_RETURN(absl::Span<int32_t> labels, executor.NextInput<int32_t>(engine::kLabels));
    RETURN_IF_ERROR(data.Read(step * kBatch, images, labels));
    RETURN_IF_ERROR(executor.Enqueue({.learning_rate = learning_rate, .step = static_cast<uint64_t>(step)}));
    if (executor.in_flight() == 2) RETURN_IF_ERROR(AddNext(executor, totals));
  }
  while (executor.in_flight() > 0) RETURN_IF_ERROR(AddNext(executor, totals));
  return totals;
}

absl::Status TrainByOwnRule() {
  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> train_set, data::OpenSamples("digits", data::SplitOf::kTrain, {}));
  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> test_set, data::OpenSamples("digits", data::SplitOf::kTest, {}));
  const data::AugmentOptions shifted = {.cropping = data::Cropping::kPadded, .pad = 1};  // by a pixel
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> train_data,
                   data::Pipeline::Create(std::move(train_set), {.augment = shifted}));
  // A test set is read once, and with the mean and deviation of the training set.
  const data::PipelineOptions once = {.shuffle = false, .once = true, .moments = train_data->moments()};
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> test_data, data::Pipeline::Create(std::move(test_set), once));

  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel("two_column", {.width = 0.5}));
  ASSIGN_OR_RETURN(partition::Plan plan, partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = kBatch}));
  partition::LowerOptions lower = {.global_batch = kBatch, .pixels = train_data->scaling()};
  ASSIGN_OR_RETURN(program::Program train_program, partition::Lower(graph, plan, lower));
  lower.mode = program::Mode::kEval;
  ASSIGN_OR_RETURN(program::Program test_program, partition::Lower(graph, plan, lower));

  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> devices, cpu::MakeCpuBackend({.devices = 4}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> trainer, engine::Executor::Create(train_program, *devices));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> tester, engine::Executor::Create(test_program, *devices));
  RETURN_IF_ERROR(engine::InitializeParameters(trainer->loaded(), /*seed=*/1));

  const int64_t steps = train_data->size() / kBatch, test_steps = (test_data->size() + kBatch - 1) / kBatch;
  double rate = 0.06, least_loss = 1e9;
  for (int64_t epoch = 0; epoch < kMostEpochs; ++epoch) {
    ASSIGN_OR_RETURN(Totals trained, RunSteps(*trainer, *train_data, epoch * steps, steps, rate));
    ASSIGN_OR_RETURN(Totals tested, RunSteps(*tester, *test_data, 0, test_steps, 0));
    std::printf("epoch %2lld  rate %.4f  loss %.3f  test loss %.4f  %lld of %lld right (%.1f %%)\n",
                static_cast<long long>(epoch + 1), rate, trained.loss(), tested.loss(), static_cast<long long>(tested.hits),
                static_cast<long long>(tested.labels), 100 * tested.accuracy());
    if (tested.accuracy() >= kTarget) {
      std::printf("%.0f %% reached after %lld epochs\n", 100 * kTarget, static_cast<long long>(epoch + 1));
      return absl::OkStatus();
    }
    if (tested.loss() < least_loss) {
      least_loss = tested.loss();
      RETURN_IF_ERROR(engine::SaveCheckpoint(kBest, trainer->loaded(), {.step = (epoch + 1) * steps}));
    } else {
      ASSIGN_OR_RETURN(engine::RunPosition best, engine::RestoreCheckpoint(kBest, trainer->loaded()));
      rate /= 2;
      std::printf("back to the state after %lld epochs\n", static_cast<long long>(best.step / steps));
    }
  }
  return absl::DeadlineExceededError("the target was not reached");
}

int main() {
  const absl::Status status = TrainByOwnRule();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
