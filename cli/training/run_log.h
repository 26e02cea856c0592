// The records of a training run: a log of one JSON object a line (--log), and event files for TensorBoard (--tensorboard).
//
// The log's first line says what is run. Each step and each evaluation has a line of its own, in the file when it is done:
//   {"colonnade_log": 1, "first_step": 0, "steps": …, "plan": …, "devices": …, "backend": …, "run": {…},
//    "checkpoint": …, "resume": …, "config": "…"}
//   {"step": 1, "epoch": …, "loss": …, "lr": …, "images_per_s": …, "seconds": …}
//   {"step": 100, "test": {"top1": …, "top5": …, "loss": …, "count": …}, "seconds": …}
// A run that goes on appends a line as the first, whose first_step says how many steps were done; what stands before it of
// later steps was not kept.
#ifndef COLONNADE_CLI_TRAINING_RUN_LOG_H_
#define COLONNADE_CLI_TRAINING_RUN_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/steady_now.h"
#include "cli/session/session.h"
#include "cli/training/train_flags.h"
#include "engine/checkpoint.h"
#include "engine/io/append_file.h"
#include "engine/io/event_file.h"
#include "engine/learning_rate.h"
#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

inline constexpr char kLogVersionKey[] = "colonnade_log";

// Where a run begins and which way it goes.
struct RunCourse {
  engine::RunPosition start;
  int64_t steps = 0;  // in all, with those before
  int64_t batch = 1;
  int64_t samples = 1;  // of an epoch
  engine::LearningRatePolicy learning_rate;

  int64_t SamplesAfter(int64_t step) const { return start.sample + (step - start.step) * batch; }
  double EpochsAfter(int64_t step) const { return static_cast<double>(SamplesAfter(step)) / static_cast<double>(samples); }
};

struct StepRecord {
  int64_t step = 0;  // steps done, with it
  double epoch = 0;  // epochs done
  double loss = 0, learning_rate = 0, images_per_s = 0;
  double seconds = 0;  // since this run began to train
};

struct EvaluationRecord {
  int64_t step = 0;  // steps done
  engine::EvalReport test;
  double seconds = 0;  // since this run began to train
};

// Returns the objects of the log; figures that are not finite are null.
nlohmann::ordered_json HeadJson(const TrainFlags& flags, const Session& session, const std::string& backend,
                                const engine::RunFields& fields, const RunCourse& course);
nlohmann::ordered_json StepJson(const StepRecord& record);
nlohmann::ordered_json EvaluationJson(const EvaluationRecord& record);
// Returns one of them as a line.
std::string LogLine(const nlohmann::ordered_json& object);
// Returns what a line holds; null where that is no JSON, or nested deeper than a record (kDeepestRecord).
nlohmann::ordered_json ParseLogLine(absl::string_view line);

// Returns the bytes of a log's whole lines. InvalidArgument where `contents` begins neither as a log does nor is a torn
// beginning of one, of which 0 bytes stand.
absl::StatusOr<int64_t> WholeLogBytes(const std::string& path, absl::string_view contents);
// Before anything is loaded: InvalidArgument, as above, where a run would write over something else than a log;
// FailedPrecondition where a run that does not go on would write over steps, unless they are those of a drawing that it
// replaces, which no run was asked to log.
absl::Status CheckLog(const TrainFlags& flags);

// What is read of one at most.
inline constexpr int64_t kLargestLog = int64_t{1} << 36;

// Returns where the log is written: --log, or the data of --curves=FILE.svg beside it as FILE.jsonl; empty: nowhere.
std::string LogPathOf(const RecordFlags& flags);

// Before anything is loaded: makes the folder of --tensorboard. DataLoss where no file could be written there.
absl::Status CheckEventFolder(const RecordFlags& flags);

class RunLog {
 public:
  // With none of the flags the result writes nothing. Time counts from here.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const TrainFlags& flags, const RunCourse& course,
                                                      const nlohmann::ordered_json& head);

  void AddStep(const engine::TrainProgress& progress);
  // That of the steps from which the run goes on is not written again where the log has it.
  EvaluationRecord AddEvaluation(int64_t step, const engine::EvalReport& test);

  // Whether the log that this run goes on with has no test after the steps from which it goes on.
  bool lacks_test_before() const { return lacks_test_before_; }

  // Returns the first thing that could not be written. It was told on stderr, and is no reason to end a training.
  const absl::Status& status() const { return status_; }

 private:
  explicit RunLog(const RunCourse& course) : course_(course) {}
  absl::Status OpenLog(const TrainFlags& flags, const nlohmann::ordered_json& head);
  absl::Status OpenEvents(const std::string& folder, bool may_go_on);
  double Seconds() const { return absl::ToDoubleSeconds(base::SteadyNow() - begin_); }
  void Write(const nlohmann::ordered_json& object, int64_t step, absl::Span<const engine::Scalar> scalars);
  void Note(const absl::Status& status);

  const RunCourse course_;
  std::unique_ptr<engine::AppendFile> log_;    // null: no log
  std::unique_ptr<engine::EventFile> events_;  // likewise
  const absl::Time begin_ = base::SteadyNow();
  absl::Duration last_elapsed_;  // of the step before
  bool lacks_test_before_ = false, has_test_before_ = false;
  absl::Status status_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_RUN_LOG_H_
