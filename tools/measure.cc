#include "tools/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "base/steady_now.h"
#include "cpu/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "engine/state.h"

namespace colonnade::tools {
namespace {

constexpr int kFilled = 2;              // steps whose images are filled: one for each slot of the host
constexpr double kLearningRate = 1e-4;  // small: the weights stay finite on data without meaning

// Pixels of a fixed pattern, labels in turn.
uint32_t PatternAt(size_t i) { return i * 2654435761u % 1024; }
void Fill(absl::Span<float> images) {
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(PatternAt(i)) / 512.0f - 1.0f;
}
void Fill(absl::Span<uint8_t> images) {
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(PatternAt(i) / 4);
}
void FillLabels(absl::Span<int32_t> labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(static_cast<int64_t>(i) % classes);
}

double ProcessorSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime));
}

// How many steps a run of at least `steps` and `time` will have, of which `done` took `elapsed`; 0 while nothing says it.
int64_t AboutSteps(int64_t steps, absl::Duration time, int64_t done, absl::Duration elapsed) {
  if (done == 0 && time > absl::ZeroDuration()) return 0;
  const double times_as_long = absl::FDivDuration(time, std::max(elapsed, absl::Nanoseconds(1)));
  return std::max({steps, done, static_cast<int64_t>(static_cast<double>(done) * times_as_long)});
}

class Stopwatch {
 public:
  Spent Read() const { return {absl::ToDoubleSeconds(base::SteadyNow() - begin_), ProcessorSeconds() - processor_begin_}; }

 private:
  const absl::Time begin_ = base::SteadyNow();
  const double processor_begin_ = ProcessorSeconds();
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepMeter>> StepMeter::Create(const layers::LayerGraph& graph, const partition::Plan& plan,
                                                             const partition::LowerOptions& lower,
                                                             std::shared_ptr<engine::Backend> backend) {
  auto meter = std::unique_ptr<StepMeter>(new StepMeter());
  const Stopwatch start_up;
  ASSIGN_OR_RETURN(meter->program_, partition::Lower(graph, plan, lower));
  meter->classes_ = graph.classes();
  if (backend == nullptr) {
    ASSIGN_OR_RETURN(backend, cpu::MakeCpuBackend({.devices = plan.mesh.device_count()}));
  }
  meter->backend_ = std::move(backend);
  ASSIGN_OR_RETURN(meter->executor_, engine::Executor::Create(meter->program_, *meter->backend_));
  meter->start_up_ = start_up.Read();
  RETURN_IF_ERROR(engine::InitializeParameters(meter->executor_->loaded(), 1));
  const Stopwatch first_step;
  // GPUs capture the third and the fourth step as graphs.
  const int pairs = meter->backend_->name() == "cuda" ? 2 : 1;
  for (int pair = 0; pair < pairs; ++pair) {
    for (int step = 0; step < 2; ++step) {
      RETURN_IF_ERROR(meter->Enqueue());
    }
    for (int step = 0; step < 2; ++step) {
      if (absl::StatusOr<engine::StepResult> result = meter->executor_->Collect(); !result.ok()) return result.status();
      if (pair == 0 && step == 0) meter->first_step_ = first_step.Read();
    }
    RETURN_IF_ERROR(meter->executor_->loaded().KeepImages());
  }
  meter->hosts_.clear();
  return meter;
}

absl::Status StepMeter::Enqueue() {
  const auto fill = [&](const auto& images) -> absl::Status {
    if (!images.ok()) return images.status();
    if (enqueued_ >= kFilled) return absl::OkStatus();
    ASSIGN_OR_RETURN(absl::Span<int32_t> labels, executor_->NextInput<int32_t>(engine::kLabels));
    Fill(*images), FillLabels(labels, classes_);
    return absl::OkStatus();
  };
  const bool bytes = program_.inputs[0].host_dtype == program::DType::kU8;
  RETURN_IF_ERROR(bytes ? fill(executor_->NextInput<uint8_t>(engine::kImages))
                        : fill(executor_->NextInput<float>(engine::kImages)));
  const absl::Time begin = base::SteadyNow();
  absl::Status s = executor_->Enqueue({.learning_rate = kLearningRate, .step = static_cast<uint64_t>(enqueued_++)});
  hosts_.push_back(absl::ToDoubleSeconds(base::SteadyNow() - begin));
  return s;
}

absl::Status StepMeter::Run(int steps, absl::Duration time, const StepProgress& progress) {
  const absl::Time begin = base::SteadyNow();
  absl::Time last = begin;
  if (progress) progress(0, AboutSteps(steps, time, 0, absl::ZeroDuration()));
  RETURN_IF_ERROR(Enqueue());
  hosts_.pop_back();  // of the step that is not counted
  for (int step = 0; executor_->in_flight() > 0; ++step) {
    if (step < steps || last - begin < time) {
      RETURN_IF_ERROR(Enqueue());
    }
    ASSIGN_OR_RETURN(engine::StepResult result, executor_->Collect());
    const absl::Time now = base::SteadyNow();
    if (step > 0) {
      steps_.push_back(absl::ToDoubleSeconds(now - last));
      times_.push_back(executor_->LatestTimes());
      if (progress) progress(step, AboutSteps(steps, time, step, now - begin));
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

absl::StatusOr<std::vector<engine::DeviceMemory>> PredictCpuMemory(const program::Program& program,
                                                                   cpu::CpuOptions::Kernels kernels) {
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   cpu::MakeCpuBackend({.devices = program.device_count, .kernels = kernels}));
  return backend->MemoryOf(program);
}

}  // namespace colonnade::tools
