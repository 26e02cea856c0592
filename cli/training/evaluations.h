// Tests while a run trains (--eval-every), and the target at which it ends (--until).
#ifndef COLONNADE_CLI_TRAINING_EVALUATIONS_H_
#define COLONNADE_CLI_TRAINING_EVALUATIONS_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/command_line/flags.h"
#include "cli/training/run_log.h"
#include "engine/data_source.h"
#include "engine/executor.h"
#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Whether a test is due when `step` steps are done. REQUIRES: step >= course.start.step. At that step itself it is asked as
// if the step before had taken a batch as large as this run's.
bool IsEvaluationDue(const EvaluationInterval& interval, const RunCourse& course, int64_t step);

bool Reaches(const engine::EvalReport& test, const Target& target);

// "top-1 60.00 %", "loss 0.5000"
std::string Describe(const engine::EvalReport& test, Target::Metric metric);
std::string Describe(const Target& target);
// "top-1 60.00 %, top-5 98.00 %, loss 0.5000, 360 images"
std::string Describe(const engine::EvalReport& test);

// engine::Evaluate, with a line of progress that begins with `what`.
absl::StatusOr<engine::EvalReport> EvaluateAndShow(absl::string_view what, engine::Executor& executor,
                                                   engine::DataSource& samples, const std::atomic<bool>& stop);

class Evaluations {
 public:
  // All arguments but `flags` must outlive it. Without a `test` set there are no tests. REQUIRES: --eval-every and --until
  // passed their validators.
  Evaluations(const RecordFlags& flags, const RunCourse& course, engine::Executor& executor, engine::DataSource* test,
              const std::atomic<bool>& stop, RunLog& log);

  bool IsDue(int64_t steps_done) const;
  // Tests the weights after `steps_done` steps, and adds what it finds to the log. A test that was asked to stop leaves
  // nothing, nor does a second one after the same step. OutOfRange where the loss is not finite.
  absl::Status Evaluate(int64_t steps_done);

  const std::vector<EvaluationRecord>& all() const { return all_; }
  bool has_target() const { return target_.has_value(); }
  bool reached() const { return reached_.has_value(); }

  std::string TargetText() const;  // what became of the target. REQUIRES: has_target()
  nlohmann::ordered_json Json() const;
  nlohmann::ordered_json TargetJson() const;  // null where there is none

 private:
  std::optional<EvaluationInterval> interval_;
  const std::optional<Target> target_;
  const RunCourse course_;
  engine::Executor& executor_;
  engine::DataSource* const test_;
  const std::atomic<bool>& stop_;
  RunLog& log_;
  std::vector<EvaluationRecord> all_;
  std::optional<EvaluationRecord> reached_;  // the first that did
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_EVALUATIONS_H_
