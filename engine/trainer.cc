#include "engine/trainer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/state.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

constexpr size_t kWarmUpSteps = 4;

// The step times' quantile, without the first steps, which fault in memory, warm caches, and capture graphs.
absl::Duration Quantile(std::vector<absl::Duration> times, double quantile) {
  times.erase(times.begin(), times.begin() + std::min(kWarmUpSteps, times.size() / 3));
  if (times.empty()) return absl::ZeroDuration();
  std::sort(times.begin(), times.end());
  const auto index = static_cast<size_t>(std::ceil(quantile * static_cast<double>(times.size()))) - 1;
  return times[std::min(index, times.size() - 1)];
}

absl::Status NotFinite(absl::string_view where, const StepResult& result) {
  return absl::OutOfRangeError(absl::StrFormat(
      "%s: the %s is not finite, in layer \"%s\" on device %d; all devices stopped; a smaller learning rate may help", where,
      result.not_finite, result.not_finite_layer, result.not_finite_device));
}

bool Stopped(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

// Waits for the steps that are in flight and drops their results.
void Drain(Executor& executor) {
  while (executor.in_flight() > 0 && executor.Collect().ok()) {
  }
}

// That a Program and a data source speak of the same images.
absl::Status CheckImages(Executor& executor, const DataSource& data) {
  ASSIGN_OR_RETURN(absl::Span<float> images, executor.NextImages());
  const int64_t expected = executor.program().global_batch * program::ElementCount(data.sample_shape());
  if (static_cast<int64_t>(images.size()) == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: images %s do not fit the network, whose batch of %d has %d values", data.description(),
                      program::ToString(data.sample_shape()), executor.program().global_batch, images.size()));
}

// That the Program, its parameters and a data source are there to be run in `mode`.
absl::Status CheckReady(Executor& executor, const DataSource& data, program::Mode mode) {
  const program::Program& program = executor.program();
  auto name = [](program::Mode m) { return m == program::Mode::kTrain ? "training" : "evaluation"; };
  if (program.mode != mode) {
    return absl::FailedPreconditionError(absl::StrFormat("network \"%s\": expected a Program for %s, found one for %s",
                                                         program.model, name(mode), name(program.mode)));
  }
  if (executor.in_flight() != 0) return absl::FailedPreconditionError("expected an executor with no step in flight");
  RETURN_IF_ERROR(CheckInitialized(program, executor.loaded()));
  return CheckImages(executor, data);
}

bool HasGate(const program::Program& program) {
  return std::any_of(program.tasks.begin(), program.tasks.end(), [](const program::Task& task) {
    const auto* compute = std::get_if<program::Compute>(&task.what);
    return compute != nullptr && std::holds_alternative<program::UpdateGate>(compute->op);
  });
}

absl::Status CheckOptions(const program::Program& program, const TrainOptions& options) {
  if (options.skips_not_finite && !HasGate(program)) {
    return absl::FailedPreconditionError("expected a Program whose updates obey a gate, so that steps can be skipped");
  }
  if (options.steps < 1 || options.first_step < 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "expected at least 1 step from a first one of at least 0, found %d from %d", options.steps, options.first_step));
  }
  return absl::OkStatus();
}

// An update may overflow where loss and gradient do not, and a ReLU may hide it from those of later steps.
absl::Status CheckResult(Executor& executor, int64_t steps) {
  const absl::Status status = CheckFinite(executor.program(), executor.loaded());
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::OutOfRangeError(
      absl::StrFormat("after step %d, the last: %s; a smaller learning rate may help", steps - 1, status.message()));
}

absl::Status EnqueueStep(Executor& executor, DataSource& data, int64_t position, const StepInputs& inputs) {
  ASSIGN_OR_RETURN(absl::Span<float> images, executor.NextImages());
  RETURN_IF_ERROR(data.Read(position, images, executor.NextLabels()));
  return executor.Enqueue(inputs);
}

}  // namespace

absl::Duration TrainReport::MedianStep() const { return Quantile(step_times, 0.5); }
absl::Duration TrainReport::P95Step() const { return Quantile(step_times, 0.95); }

absl::StatusOr<TrainReport> Train(Executor& executor, DataSource& data, const TrainOptions& options) {
  RETURN_IF_ERROR(CheckOptions(executor.program(), options));
  RETURN_IF_ERROR(CheckReady(executor, data, program::Mode::kTrain));
  const int64_t batch = executor.program().global_batch;
  TrainReport report;
  const absl::Time begin = absl::Now();
  absl::Time last = begin;
  auto collect = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(StepResult result, executor.Collect());
    const absl::Time now = absl::Now();
    report.step_times.push_back(now - last);
    last = now;
    if (!result.not_finite.empty() && !options.skips_not_finite) {
      return NotFinite(absl::StrCat("step ", options.first_step + static_cast<int64_t>(report.losses.size())), result);
    }
    if (!result.not_finite.empty() && ++report.skipped_steps == options.steps) {
      return NotFinite(absl::StrFormat("all %d steps were skipped; in the last", options.steps), result);
    }
    report.losses.push_back(result.loss);
    if (options.on_step) {
      options.on_step({.step = options.first_step + static_cast<int64_t>(report.losses.size()),
                       .steps = options.first_step + options.steps,
                       .first_step = options.first_step,
                       .loss = result.loss,
                       .elapsed = now - begin});
    }
    return absl::OkStatus();
  };
  const int64_t first_sample = options.first_sample.value_or(options.first_step * batch);
  auto pause_before = [&](int64_t step) -> absl::Status {
    if (step == options.first_step || !options.pauses_after || !options.pauses_after(step)) return absl::OkStatus();
    while (executor.in_flight() > 0) RETURN_IF_ERROR(collect());
    RETURN_IF_ERROR(options.on_pause(step));
    last = absl::Now();
    return absl::OkStatus();
  };
  absl::Status status;
  for (int64_t step = options.first_step; step < options.first_step + options.steps; ++step) {
    report.stopped = Stopped(options.stop);
    if (report.stopped) break;
    status = pause_before(step);
    if (!status.ok()) break;
    status = EnqueueStep(executor, data, first_sample + (step - options.first_step) * batch,
                         {.learning_rate = LearningRateAt(options.learning_rate, step),
                          .step = static_cast<uint64_t>(step),
                          .seed = options.seed});
    if (status.ok() && executor.in_flight() == 2) status = collect();
    if (!status.ok()) break;
  }
  while (status.ok() && executor.in_flight() > 0) status = collect();
  Drain(executor);
  if (!status.ok()) return status;
  report.elapsed = absl::Now() - begin;
  report.last_steps = MakeTrace(executor.program(), executor.LastTimes());
  if (!report.losses.empty()) {
    RETURN_IF_ERROR(CheckResult(executor, options.first_step + static_cast<int64_t>(report.losses.size())));
  }
  return report;
}

absl::StatusOr<EvalReport> Evaluate(Executor& executor, DataSource& data, const std::atomic<bool>* stop) {
  RETURN_IF_ERROR(CheckReady(executor, data, program::Mode::kEval));
  const int64_t batch = executor.program().global_batch;
  EvalReport report;
  const absl::Time begin = absl::Now();
  double loss_sum = 0;
  int64_t batches = 0;
  absl::Status status;
  auto collect = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(StepResult result, executor.Collect());
    if (!result.not_finite.empty()) return NotFinite(absl::StrCat("test batch ", batches), result);
    ++batches;
    loss_sum += result.loss * static_cast<double>(result.labels);
    report.count += result.labels;
    report.top1_hits += result.top1_hits;
    report.top5_hits += result.top5_hits;
    return absl::OkStatus();
  };
  for (int64_t position = 0; position < data.size() && status.ok() && !Stopped(stop); position += batch) {
    status = EnqueueStep(executor, data, position, {.step = static_cast<uint64_t>(position / batch)});
    if (status.ok() && executor.in_flight() == 2) status = collect();
  }
  while (status.ok() && executor.in_flight() > 0) status = collect();
  Drain(executor);
  if (!status.ok()) return status;
  report.loss = report.count > 0 ? loss_sum / static_cast<double>(report.count) : 0;
  report.elapsed = absl::Now() - begin;
  return report;
}

}  // namespace colonnade::engine
