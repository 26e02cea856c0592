#include "engine/trainer.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "engine/classification.h"
#include "engine/error_context.h"
#include "engine/state.h"
#include "engine/statistics.h"

namespace colonnade::engine {
namespace {

constexpr size_t kWarmUpSteps = 4;

// The step times' quantile, without the first steps, which fault in memory, warm caches, and capture graphs.
absl::Duration QuantileOfSteps(const std::vector<absl::Duration>& times, double fraction) {
  std::vector<double> seconds;
  for (size_t i = std::min(kWarmUpSteps, times.size() / 3); i < times.size(); ++i) {
    seconds.push_back(absl::ToDoubleSeconds(times[i]));
  }
  return absl::Seconds(Quantile(std::move(seconds), fraction));
}

absl::Status NotFinite(absl::string_view where, const StepResult& result, absl::string_view advice) {
  const std::string device = result.not_finite_device < 0 ? "" : absl::StrFormat(" on device %d", result.not_finite_device);
  const std::string layer =
      result.not_finite_layer.empty() ? "" : absl::StrFormat(", in layer \"%s\"", result.not_finite_layer);
  return absl::OutOfRangeError(absl::StrFormat("%s: the %s is not finite%s%s; all devices stopped; %s", where,
                                               result.not_finite, layer, device, advice));
}

absl::Status NotFiniteInTraining(absl::string_view where, const StepResult& result) {
  return NotFinite(where, result, "a smaller learning rate may help");
}

absl::Status NotFiniteInTest(int64_t batch, const StepResult& result) {
  return NotFinite(absl::StrCat("test batch ", batch + 1), result,
                   "its training may have diverged, or seen images that were scaled otherwise");
}

bool Stopped(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

// Waits for the steps that are in flight and drops their results.
void Drain(Executor& executor) {
  while (executor.in_flight() > 0) (void)executor.Collect();
}

// Whether two are equal up to the rounding of a mean and a deviation on their way.
bool AreClose(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

// Whether `op` scales some neighbouring channels as `scaling` says.
bool IsPartOf(const program::Normalise& op, const program::PixelScaling& scaling) {
  const size_t count = op.scale.size();
  if (scaling.shift.size() != scaling.scale.size()) return false;
  for (size_t first = 0; first + count <= scaling.scale.size(); ++first) {
    bool fits = true;
    for (size_t c = 0; c < count; ++c) {
      fits = fits && AreClose(op.scale[c], scaling.scale[first + c]) && AreClose(op.shift[c], scaling.shift[first + c]);
    }
    if (fits) return true;
  }
  return false;
}

// Checks that a Program makes of bytes what a data source says.
absl::Status CheckScaling(const program::Program& program, const DataSource& data) {
  for (const program::Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    const auto* normalise = compute != nullptr ? std::get_if<program::Normalise>(&compute->op) : nullptr;
    if (normalise == nullptr || IsPartOf(*normalise, data.scaling())) continue;
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: expected a Program that was lowered for its mean and deviation (LowerOptions::pixels), found "
                        "other ones in task %d",
                        data.description(), task.id.value));
  }
  return absl::OkStatus();
}

// The shape of a batch of samples [C, H, W] in host memory: [N, H, W, C]; others stand in their own order.
program::Shape BatchOf(const program::Shape& sample, int64_t samples) {
  if (sample.size() == 3) return {samples, sample[1], sample[2], sample[0]};
  program::Shape batch = sample;
  batch.insert(batch.begin(), samples);
  return batch;
}

// Checks that a Program and a data source speak of the same images.
absl::Status CheckImages(Executor& executor, const DataSource& data) {
  absl::StatusOr<absl::Span<uint8_t>> input = executor.NextInput<uint8_t>(kImages);
  if (!input.ok()) {
    return absl::Status(input.status().code(),
                        absl::StrCat(input.status().message(),
                                     "; a Program that reads a data source is lowered with the scaling of its pixels "
                                     "(LowerOptions::pixels = data.scaling())"));
  }
  const program::Program& program = executor.program();
  const program::Shape& expected = absl::c_find_if(program.inputs, [](const auto& i) { return i.name == kImages; })->shape;
  if (expected == BatchOf(data.sample_shape(), program.global_batch)) return CheckScaling(program, data);
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: images %s do not fit the network, whose input is %s (samples, rows, columns, channels)",
                      data.description(), program::ToString(data.sample_shape()), program::ToString(expected)));
}

// Checks that a Program reads nothing but what a data source and the executor give.
absl::Status CheckInputs(const program::Program& program) {
  for (const program::Input& input : program.inputs) {
    if (absl::c_linear_search(program::kHostInputNames, input.name)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "network \"%s\": expected images, labels and scalars as inputs, found \"%s\"", program.model, input.name));
  }
  return absl::OkStatus();
}

// Checks that the Program, its parameters and a data source are there to be run in `mode`.
absl::Status CheckReady(Executor& executor, const DataSource& data, program::Mode mode) {
  const program::Program& program = executor.program();
  auto name = [](program::Mode m) { return m == program::Mode::kTrain ? "training" : "evaluation"; };
  if (program.mode != mode) {
    return absl::FailedPreconditionError(absl::StrFormat("network \"%s\": expected a Program for %s, found one for %s",
                                                         program.model, name(mode), name(program.mode)));
  }
  if (executor.in_flight() != 0) return absl::FailedPreconditionError("expected an executor with no step in flight");
  RETURN_IF_ERROR(CheckInputs(program));
  RETURN_IF_ERROR(CheckInitialized(executor.loaded()));
  return CheckImages(executor, data);
}

bool HasGate(const program::Program& program) {
  return std::any_of(program.outputs.begin(), program.outputs.end(),
                     [](const program::Output& output) { return output.kind == program::Output::Kind::kGate; });
}

absl::Status CheckOptions(const program::Program& program, const TrainOptions& options) {
  if (options.skips_not_finite && !HasGate(program)) {
    return absl::FailedPreconditionError(
        "skips_not_finite: expected a Program whose updates obey a gate (LowerOptions::update.skips_not_finite)");
  }
  const RunPosition& start = options.start;
  if (options.steps < 1 || start.step < 0 || start.sample < 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected at least 1 step, from a step and a sample of at least 0, found %d from step %d, sample %d",
                        options.steps, start.step, start.sample));
  }
  // Data sources read ahead, so that sums of positions stay far below what an int64_t holds.
  const double last_step = static_cast<double>(start.step) + static_cast<double>(options.steps),
               last_sample = static_cast<double>(start.sample) +
                             static_cast<double>(options.steps) * static_cast<double>(program.global_batch);
  if (std::max(last_step, last_sample) > static_cast<double>(program::kLargestScalar)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "expected a last step and sample of at most %d, found %d steps of %d samples from step %d, sample %d",
        program::kLargestScalar, options.steps, program.global_batch, start.step, start.sample));
  }
  if (options.copies.is_due && !(options.copies.begin && options.copies.end)) {
    return absl::FailedPreconditionError(absl::StrFormat("copies: expected begin and end beside is_due, found no %s",
                                                         options.copies.begin ? "end" : "begin"));
  }
  if (options.pauses.is_due && !options.pauses.at) {
    return absl::FailedPreconditionError("pauses: expected at beside is_due, found none");
  }
  return CheckPolicy(options.learning_rate);
}

// An update may overflow where loss and gradient do not, and a ReLU may hide it from those of later steps.
absl::Status CheckResult(Executor& executor, int64_t steps) {
  const absl::Status status = CheckFiniteParameters(executor.loaded());
  if (!absl::IsInvalidArgument(status)) return WithContext(status, absl::StrFormat("after step %d", steps));
  return NotFiniteAfter(steps, status);
}

// What of a step a data source fills.
struct BatchInputs {
  InputOf<uint8_t> images;
  InputOf<int32_t> labels;
};

absl::StatusOr<BatchInputs> FindBatchInputs(const Executor& executor) {
  BatchInputs inputs;
  ASSIGN_OR_RETURN(inputs.images, executor.FindInput<uint8_t>(kImages));
  ASSIGN_OR_RETURN(inputs.labels, executor.FindInput<int32_t>(kLabels));
  return inputs;
}

absl::Status ReadBatch(Executor& executor, const BatchInputs& inputs, DataSource& data, int64_t position) {
  ASSIGN_OR_RETURN(absl::Span<uint8_t> images, executor.NextInput(inputs.images));
  ASSIGN_OR_RETURN(absl::Span<int32_t> labels, executor.NextInput(inputs.labels));
  return data.Read(position, images, labels);
}

// Labels of samples past the end of the data count nowhere, whatever the source gives there.
absl::Status ReadTestBatch(Executor& executor, const BatchInputs& inputs, DataSource& data, int64_t position) {
  RETURN_IF_ERROR(ReadBatch(executor, inputs, data, position));
  ASSIGN_OR_RETURN(absl::Span<int32_t> labels, executor.NextInput(inputs.labels));
  const auto samples = static_cast<size_t>(std::min(data.size() - position, static_cast<int64_t>(labels.size())));
  std::fill(labels.begin() + samples, labels.end(), -1);
  return absl::OkStatus();
}

}  // namespace

absl::Duration TrainReport::MedianStep() const { return QuantileOfSteps(step_times, 0.5); }
absl::Duration TrainReport::P95Step() const { return QuantileOfSteps(step_times, 0.95); }

namespace {

// One training: its steps in flight, and what has come out of them.
class Training {
 public:
  Training(Executor& executor, const BatchInputs& inputs, DataSource& data, const TrainOptions& options)
      : executor_(executor), inputs_(inputs), data_(data), options_(options) {}

  absl::StatusOr<TrainReport> Run() {
    absl::Status status = RunSteps();
    Drain(executor_);
    report_.elapsed = Elapsed(base::SteadyNow());
    report_.end = End();
    if (status.ok() && !report_.losses.empty()) status = CheckResult(executor_, steps_done());
    if (!status.ok()) {
      report_.step_times.resize(report_.losses.size());  // without that of the step that failed
      if (options_.report_of_error != nullptr) *options_.report_of_error = std::move(report_);
      return status;
    }
    report_.last_steps = MakeTrace(executor_.program(), LastTimes());
    return std::move(report_);
  }

 private:
  int64_t steps_done() const { return options_.start.step + static_cast<int64_t>(report_.losses.size()); }

  int64_t SampleOf(int64_t step) const {
    return options_.start.sample + (step - options_.start.step) * executor_.program().global_batch;
  }

  RunPosition End() const {
    RunPosition end{.step = steps_done(), .sample = SampleOf(steps_done())};
    double sum = 0;
    int64_t finite = 0;
    for (double loss : report_.losses) {
      if (!std::isfinite(loss)) continue;
      sum += loss;
      ++finite;
    }
    if (finite > 0) end.loss = sum / static_cast<double>(finite);
    return end;
  }

  absl::Status RunSteps() {
    for (int64_t step = options_.start.step; step < options_.start.step + options_.steps; ++step) {
      ASSIGN_OR_RETURN(bool goes_on, PauseBefore(step));
      if (!goes_on) break;
      report_.stopped = Stopped(options_.stop);
      if (report_.stopped) break;
      RETURN_IF_ERROR(Enqueue(step));
      if (executor_.in_flight() == 2) RETURN_IF_ERROR(Collect());
    }
    return CollectAll();
  }

  // Whether training goes on.
  absl::StatusOr<bool> PauseBefore(int64_t step) {
    const bool is_due = step > options_.start.step && options_.pauses.is_due && options_.pauses.is_due(step);
    if (!is_due) return true;
    RETURN_IF_ERROR(CollectAll());
    const absl::StatusOr<bool> goes_on = options_.pauses.at(step);
    if (!goes_on.ok()) {
      const bool is_state_good = !absl::IsOutOfRange(goes_on.status());
      if (is_state_good && options_.before_error) options_.before_error(steps_done());
      return goes_on.status();
    }
    const absl::Time now = base::SteadyNow();
    paused_ += now - last_;
    last_ = now;
    if (*goes_on) paused_before_ = step;
    return *goes_on;
  }

  absl::Duration Elapsed(absl::Time now) const { return now - begin_ - paused_; }

  std::vector<std::vector<TaskTime>> LastTimes() const {
    std::vector<std::vector<TaskTime>> times = executor_.LastTimes();
    const bool is_one = report_.losses.size() == 1 || paused_before_ == steps_done() - 1;
    if (report_.losses.empty()) times.clear();  // those of a training before
    if (times.size() > 1 && is_one) times.erase(times.begin());
    return times;
  }

  absl::Status Enqueue(int64_t step) {
    const StepInputs inputs{.learning_rate = LearningRateAt(options_.learning_rate, step),
                            .step = static_cast<uint64_t>(step),
                            .seed = options_.seed};
    if (!std::isfinite(inputs.learning_rate)) {
      return EndInGoodState(absl::FailedPreconditionError(
          absl::StrFormat("step %d: expected a learning rate that is finite, found %g", step + 1, inputs.learning_rate)));
    }
    const bool copies = step > options_.start.step && options_.copies.is_due && options_.copies.is_due(step);
    const absl::Status read = ReadBatch(executor_, inputs_, data_, SampleOf(step));
    if (!read.ok()) return EndInGoodState(read);
    return copies ? EnqueueWhileCopying(step, inputs) : executor_.Enqueue(inputs);
  }

  absl::Status EndInGoodState(const absl::Status& why) {
    RETURN_IF_ERROR(CollectAll());
    if (options_.before_error) options_.before_error(steps_done());
    return why;
  }

  absl::Status EnqueueWhileCopying(int64_t step, const StepInputs& inputs) {
    const program::Program& program = executor_.program();
    StateCopy* copy = nullptr;
    RETURN_IF_ERROR(executor_.EnqueueWhileReading(inputs, [&](size_t parameter) -> absl::Status {
      if (copy == nullptr) {
        RETURN_IF_ERROR(CollectAll());
        ASSIGN_OR_RETURN(copy, options_.copies.begin(step));
        ReserveState(program, *copy);
      }
      return WithContext(CopyParameter(executor_.loaded(), parameter, *copy),
                         absl::StrFormat("the state after %s cannot be saved", base::Counted(step, "step")));
    }));
    if (copy == nullptr) return absl::OkStatus();  // a Program without state: nothing was copied
    copied_before_ = step;
    return options_.copies.end(step);
  }

  absl::Status CollectAll() {
    while (executor_.in_flight() > 0) RETURN_IF_ERROR(Collect());
    return absl::OkStatus();
  }

  absl::Status Collect() {
    ASSIGN_OR_RETURN(ScoredStep result, CollectScored(executor_));
    const absl::Time now = base::SteadyNow();
    report_.step_times.push_back(now - last_);
    last_ = now;
    const int64_t step = steps_done();
    if (!result.not_finite.empty() && !options_.skips_not_finite)
      return NotFiniteInTraining(absl::StrCat("step ", step + 1), result);
    report_.losses.push_back(result.loss);
    report_.skipped_steps += result.is_gate_closed;
    if (step == copied_before_) AddHeldUp();
    if (options_.on_step) {
      options_.on_step({.step = step + 1,
                        .steps = options_.start.step + options_.steps,
                        .first_step = options_.start.step,
                        .loss = result.loss,
                        .top1_hits = result.top1_hits,
                        .labels = result.labels,
                        .elapsed = Elapsed(now)});
    }
    return CheckSkipped(result);
  }

  // A run that has skipped all its steps, or too many in a row, ends. One that goes on has had other steps.
  absl::Status CheckSkipped(const ScoredStep& result) {
    skipped_in_a_row_ = result.is_gate_closed ? skipped_in_a_row_ + 1 : 0;
    const bool are_all = options_.start.step == 0 && skipped_in_a_row_ == options_.steps;
    if (!are_all && skipped_in_a_row_ != kMostSkippedInARow) return absl::OkStatus();
    return NotFiniteInTraining(skipped_in_a_row_ == 1 ? "the only step was skipped"
                                                      : absl::StrFormat("%s %d steps were skipped; in the last",
                                                                        are_all ? "all" : "the last", skipped_in_a_row_),
                               result);
  }

  void AddHeldUp() {
    const std::optional<absl::Duration> held_up = executor_.LatestHeldUp();
    if (!held_up.has_value()) {
      report_.held_up.reset();
    } else if (report_.held_up.has_value()) {
      *report_.held_up += *held_up;
    }
  }

  Executor& executor_;
  const BatchInputs inputs_;
  DataSource& data_;
  const TrainOptions& options_;
  TrainReport report_;
  int64_t copied_before_ = -1;  // the last step that a copy was made beside
  int64_t skipped_in_a_row_ = 0;
  int64_t paused_before_ = -1;  // the last step before which there was a pause
  absl::Duration paused_;
  const absl::Time begin_ = base::SteadyNow();
  absl::Time last_ = begin_;
};

}  // namespace

absl::StatusOr<TrainReport> Train(Executor& executor, DataSource& data, const TrainOptions& options) {
  RETURN_IF_ERROR(CheckOptions(executor.program(), options));
  RETURN_IF_ERROR(CheckReady(executor, data, program::Mode::kTrain));
  ASSIGN_OR_RETURN(BatchInputs inputs, FindBatchInputs(executor));
  return Training(executor, inputs, data, options).Run();
}

absl::StatusOr<EvalReport> Evaluate(Executor& executor, DataSource& data, const EvalOptions& options) {
  RETURN_IF_ERROR(CheckReady(executor, data, program::Mode::kEval));
  ASSIGN_OR_RETURN(const BatchInputs inputs, FindBatchInputs(executor));
  const int64_t batch = executor.program().global_batch;
  EvalReport report;
  const absl::Time begin = base::SteadyNow();
  double loss_sum = 0;
  int64_t batches = 0;
  absl::Status status;
  auto collect = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(ScoredStep result, CollectScored(executor));
    if (!result.not_finite.empty()) return NotFiniteInTest(batches, result);
    if (options.read_batch) {
      const int64_t first = batches * batch;
      RETURN_IF_ERROR(options.read_batch(first, std::min(batch, data.size() - first)));
    }
    ++batches;
    loss_sum += result.loss * static_cast<double>(result.labels);
    report.count += result.labels;
    report.top1_hits += result.top1_hits;
    report.top5_hits += result.top5_hits;
    if (options.on_batch) options.on_batch(report.count);
    return absl::OkStatus();
  };
  for (int64_t position = 0; position < data.size() && status.ok() && !Stopped(options.stop); position += batch) {
    status = ReadTestBatch(executor, inputs, data, position);
    if (status.ok()) status = executor.Enqueue({.step = static_cast<uint64_t>(position / batch)});
    if (status.ok() && executor.in_flight() == 2) status = collect();
  }
  while (status.ok() && executor.in_flight() > 0) status = collect();
  Drain(executor);
  if (!status.ok()) return status;
  report.loss = report.count > 0 ? loss_sum / static_cast<double>(report.count) : 0;
  report.elapsed = base::SteadyNow() - begin;
  return report;
}

}  // namespace colonnade::engine
