#include "cli/measure.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "cpu/backend.h"
#include "data/dataset.h"
#include "data/sample_stream.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "models/models.h"
#include "partition/named_plans.h"

namespace colonnade::cli {
namespace {

constexpr int kFilled = 2;              // steps whose images are filled: one for each slot of the host
constexpr double kLearningRate = 1e-4;  // small: the weights stay finite on data without meaning

// Pixels of a fixed pattern, labels in turn.
void Fill(absl::Span<float> images, absl::Span<int32_t> labels, int64_t classes) {
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f;
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(static_cast<int64_t>(i) % classes);
}

}  // namespace

int CoreCount() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

double TrimmedMean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto kept = static_cast<int64_t>(std::max<size_t>(1, values.size() - values.size() / 10));
  return std::accumulate(values.begin(), values.begin() + kept, 0.0) / static_cast<double>(kept);
}

absl::StatusOr<std::unique_ptr<StepMeter>> StepMeter::Create(const layers::LayerGraph& graph, const partition::Plan& plan,
                                                             const partition::LowerOptions& lower,
                                                             std::shared_ptr<engine::Backend> backend) {
  auto meter = std::unique_ptr<StepMeter>(new StepMeter());
  absl::StatusOr<program::Program> program = partition::Lower(graph, plan, lower);
  if (!program.ok()) return program.status();
  meter->program_ = *std::move(program);
  meter->classes_ = graph.classes();
  if (backend == nullptr) {
    absl::StatusOr<std::unique_ptr<engine::Backend>> made = cpu::MakeCpuBackend({.devices = plan.mesh.device_count()});
    if (!made.ok()) return made.status();
    backend = *std::move(made);
  }
  meter->backend_ = std::move(backend);
  absl::StatusOr<std::unique_ptr<engine::Executor>> executor = engine::Executor::Create(meter->program_, *meter->backend_);
  if (!executor.ok()) return executor.status();
  meter->executor_ = *std::move(executor);
  if (absl::Status s = engine::InitializeParameters(meter->program_, meter->executor_->loaded(), 1); !s.ok()) return s;
  // On GPUs the third and the fourth step become graphs.
  const int pairs = meter->backend_->name() == "cuda" ? 2 : 1;
  for (int pair = 0; pair < pairs; ++pair) {
    for (int step = 0; step < 2; ++step) {
      if (absl::Status s = meter->Enqueue(); !s.ok()) return s;
    }
    for (int step = 0; step < 2; ++step) {
      if (absl::StatusOr<engine::StepResult> result = meter->executor_->Collect(); !result.ok()) return result.status();
    }
    if (absl::Status s = meter->executor_->loaded().KeepImages(); !s.ok()) return s;
  }
  meter->hosts_.clear();
  return meter;
}

absl::Status StepMeter::Enqueue() {
  absl::StatusOr<absl::Span<float>> images = executor_->NextImages();
  if (!images.ok()) return images.status();
  if (enqueued_ < kFilled) Fill(*images, executor_->NextLabels(), classes_);
  const absl::Time begin = absl::Now();
  absl::Status s = executor_->Enqueue({.learning_rate = kLearningRate, .step = static_cast<uint64_t>(enqueued_++)});
  hosts_.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  return s;
}

absl::Status StepMeter::Run(int steps, absl::Duration time) {
  const absl::Time begin = absl::Now();
  absl::Time last = begin;
  if (absl::Status s = Enqueue(); !s.ok()) return s;
  for (int step = 0; executor_->in_flight() > 0; ++step) {
    if (step < steps || last - begin < time) {
      if (absl::Status s = Enqueue(); !s.ok()) return s;
    }
    absl::StatusOr<engine::StepResult> result = executor_->Collect();
    if (!result.ok()) return result.status();
    const absl::Time now = absl::Now();
    if (step > 0) {
      steps_.push_back(absl::ToDoubleSeconds(now - last));
      times_.push_back(executor_->LatestTimes());
    }
    last = now;
  }
  return absl::OkStatus();
}

std::vector<engine::DeviceMemory> StepMeter::Memory() const {
  std::vector<engine::DeviceMemory> memory;
  for (int d = 0; d < program_.device_count; ++d) memory.push_back(executor_->loaded().Memory(d));
  return memory;
}

absl::StatusOr<std::vector<engine::DeviceMemory>> PredictCpuMemory(const program::Program& program) {
  absl::StatusOr<std::unique_ptr<engine::Backend>> backend = cpu::MakeCpuBackend({.devices = program.device_count});
  if (!backend.ok()) return backend.status();
  return (*backend)->MemoryOf(program);
}

absl::StatusOr<std::vector<double>> ErrorByUpdate(int64_t steps, int64_t every, int64_t batch) {
  absl::StatusOr<const models::ModelInfo*> model = models::FindModel("two_column");
  if (!model.ok()) return model.status();
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {});
  if (!graph.ok()) return graph.status();
  absl::StatusOr<partition::Plan> plan = partition::NamedPlan("single", *graph, {.devices = 1, .global_batch = batch});
  if (!plan.ok()) return plan.status();
  partition::LowerOptions lower{
      .global_batch = batch, .momentum = (*model)->momentum, .weight_decay = (*model)->weight_decay};
  absl::StatusOr<program::Program> train_program = partition::Lower(*graph, *plan, lower);
  if (!train_program.ok()) return train_program.status();
  lower.mode = program::Mode::kEval;
  absl::StatusOr<program::Program> eval_program = partition::Lower(*graph, *plan, lower);
  if (!eval_program.ok()) return eval_program.status();
  absl::StatusOr<std::unique_ptr<engine::Backend>> backend = cpu::MakeCpuBackend({.devices = 1});
  if (!backend.ok()) return backend.status();
  absl::StatusOr<std::unique_ptr<engine::Executor>> train = engine::Executor::Create(*train_program, **backend);
  if (!train.ok()) return train.status();
  absl::StatusOr<std::unique_ptr<engine::Executor>> eval = engine::Executor::Create(*eval_program, **backend);
  if (!eval.ok()) return eval.status();
  if (absl::Status s = engine::InitializeParameters(*train_program, (*train)->loaded(), 1); !s.ok()) return s;
  absl::StatusOr<data::ImageSet> train_set = data::OpenDataset("digits", data::SplitOf::kTrain, {});
  if (!train_set.ok()) return train_set.status();
  absl::StatusOr<data::ImageSet> test_set = data::OpenDataset("digits", data::SplitOf::kTest, {});
  if (!test_set.ok()) return test_set.status();
  test_set->mean = train_set->mean;
  test_set->std = train_set->std;
  absl::StatusOr<data::SampleStream> samples = data::SampleStream::Create(*train_set, {.shift = true});
  if (!samples.ok()) return samples.status();
  absl::StatusOr<data::SampleStream> tests = data::SampleStream::Create(*test_set, {.shuffle = false, .once = true});
  if (!tests.ok()) return tests.status();
  std::vector<double> errors;
  for (int64_t step = 0; step <= steps; step += every) {
    absl::StatusOr<engine::EvalReport> tested = engine::Evaluate(**eval, *tests);
    if (!tested.ok()) return tested.status();
    errors.push_back(1 - tested->top1());
    if (step == steps) break;
    absl::StatusOr<engine::TrainReport> report = engine::Train(
        **train, *samples, {.first_step = step, .steps = every, .learning_rate = {.base = (*model)->learning_rate}});
    if (!report.ok()) return report.status();
  }
  return errors;
}

}  // namespace colonnade::cli
