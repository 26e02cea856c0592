// The training and the evaluation loop over lowered Programs: they know no graph and no plan.
#ifndef COLONNADE_ENGINE_TRAINER_H_
#define COLONNADE_ENGINE_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/data_source.h"
#include "engine/executor.h"
#include "engine/learning_rate.h"
#include "engine/run_position.h"
#include "engine/state.h"
#include "engine/trace.h"

namespace colonnade::engine {

struct TrainProgress {
  int64_t step = 0, steps = 0;  // steps done, and steps in all, both with those of the run that this one resumes
  int64_t first_step = 0;       // of this run
  double loss = 0;
  int64_t top1_hits = 0, labels = 0;  // of this step's samples
  absl::Duration elapsed;             // without pauses
};

// Copies of the state between two steps, made while the later one runs. Tasks that change the state wait for the copy.
struct StateCopies {
  std::function<bool(int64_t steps_done)> is_due;  // asked before every step but the first
  // Where a copy is due, `begin` returns what to copy to, once the steps done have their results, and `end` is called when
  // the copy is made. Training ends with an error of either.
  std::function<absl::StatusOr<StateCopy*>(int64_t steps_done)> begin;
  std::function<absl::Status(int64_t steps_done)> end;
};

// What is done between two steps while none is in flight, such as a test. Its time does not count as training.
struct Pauses {
  std::function<bool(int64_t steps_done)> is_due;              // asked before every step but the first
  std::function<absl::StatusOr<bool>(int64_t steps_done)> at;  // whether training goes on; it ends with errors, too
};

// Where so many steps in a row are skipped, the state, which they leave as it is, is taken to be what makes gradients not
// finite.
inline constexpr int64_t kMostSkippedInARow = 100;

struct TrainReport;

struct TrainOptions {
  // Where this run goes on with another (TrainReport::end, RestoreCheckpoint): samples, learning rates and random numbers
  // are those that the other run's next steps would have. A position made by hand may combine any step with any sample; its
  // loss is ignored.
  RunPosition start{};
  int64_t steps = 1;                   // from there, at least 1
  uint64_t seed = 1;                   // < 2^53
  LearningRatePolicy learning_rate{};  // or a function of the step: LearningRatePolicy::function
  // true: a step whose gradients are not finite leaves all state as it was, as its Program must (program::UpdateGate), and
  // training goes on, unless all steps of a run from step 0 are such, or kMostSkippedInARow behind each other; false:
  // training ends there.
  bool skips_not_finite = false;
  const std::atomic<bool>* stop = nullptr;  // set from elsewhere: training ends after the steps in flight
  std::function<void(const TrainProgress&)> on_step{};
  StateCopies copies{};
  Pauses pauses{};
  // Called before Train returns an error that leaves the state good: the data cannot be read, a learning rate is not finite,
  // or a pause fails otherwise than by OutOfRange. All steps before are collected: the state is that after so many steps.
  std::function<void(int64_t steps_done)> before_error{};
  // Where this is not null and Train returns an error behind its first step, it gets the report of the steps before, without
  // the last steps' times.
  TrainReport* report_of_error = nullptr;
};

struct TrainReport {
  std::vector<double> losses;              // one per step done; for a skipped step as it came out
  std::vector<absl::Duration> step_times;  // from the end of one step, or of a pause behind it, to the end of the next
  absl::Duration elapsed;                  // without pauses
  int64_t skipped_steps = 0;               // of those done: gradients were not finite
  // How long copies of the state held up steps, in total; nothing where the backend does not time tasks.
  std::optional<absl::Duration> held_up = absl::ZeroDuration();
  bool stopped = false;
  RunPosition end;   // of the run, with the mean of those losses above that are finite
  Trace last_steps;  // the last two; one where there was one, or a pause between them

  // Return the median and the 95th percentile of the step times without the first four, or the first third where there are
  // fewer than 12.
  absl::Duration MedianStep() const;
  absl::Duration P95Step() const;
};

// Trains from options.start.sample in the stream on, a batch each step. Two steps are in flight, so that devices do not wait
// for the host. OutOfRange, with step (the first is 1), layer and device, where a loss or a gradient is not finite: every
// device stops at that step; with the step alone, where gradients close a gate by their sum over the devices; or, with the
// parameter, where a parameter is not finite after the last step. Without a gate, a sum that is not finite is found by the
// loss of the step behind it, or at the end. FailedPrecondition where the Program is not one of training, its parameters
// were never set, or options are out of range or not what the Program does.
absl::StatusOr<TrainReport> Train(Executor& executor, DataSource& data, const TrainOptions& options);

struct EvalReport {
  int64_t count = 0, top1_hits = 0, top5_hits = 0;
  double loss = 0;  // mean
  absl::Duration elapsed;
  double top1() const { return count > 0 ? static_cast<double>(top1_hits) / static_cast<double>(count) : 0; }
  double top5() const { return count > 0 ? static_cast<double>(top5_hits) / static_cast<double>(count) : 0; }
};

struct EvalOptions {
  const std::atomic<bool>* stop = nullptr;          // set from elsewhere: the test ends after the steps in flight
  std::function<void(int64_t samples)> on_batch{};  // gets the number of samples tested so far
  // Called with the first sample of each batch, and how many it has of the data, once its results are there: reads what the
  // Program shows (Executor::ReadOutput). The test ends with its error.
  std::function<absl::Status(int64_t first, int64_t count)> read_batch{};
};

// Tests every sample of `data` once: what fills up the last batch counts nowhere. OutOfRange where the loss is not finite;
// FailedPrecondition where the Program is not one of evaluation or its parameters were never set.
absl::StatusOr<EvalReport> Evaluate(Executor& executor, DataSource& data, const EvalOptions& options = {});

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_TRAINER_H_
