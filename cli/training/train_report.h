// What `colonnade train` says of a run when it begins and when it has ended.
#ifndef COLONNADE_CLI_TRAINING_TRAIN_REPORT_H_
#define COLONNADE_CLI_TRAINING_TRAIN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/session/session.h"
#include "cli/training/evaluations.h"
#include "cli/training/train_flags.h"
#include "engine/backend.h"
#include "engine/checkpoint.h"
#include "engine/trace.h"
#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// What a run gave, as far as it came.
struct TrainResults {
  engine::RunPosition start;  // where the run began
  engine::TrainReport report;
  engine::EvalReport test, test_of_averages;  // of no sample where the run was stopped
  bool stopped = false;
  std::string error;  // that ended the run behind its first step; empty: none did

  int64_t steps_done() const { return start.step + static_cast<int64_t>(report.losses.size()); }

  double images_per_s(int64_t batch) const {
    const double seconds = absl::ToDoubleSeconds(report.elapsed);
    return seconds > 0 ? static_cast<double>(static_cast<int64_t>(report.losses.size()) * batch) / seconds : 0;
  }
};

// "68"; of a run that was resumed "180, of which 90 since it was resumed".
std::string StepsText(const TrainResults& results);

// Of a run whose last steps have no times of tasks, as on GPUs without --trace.
inline constexpr char kTasksNotTimed[] = "where the time of a step went is not known: --trace=FILE times its tasks";

// Returns the table of where the time of the last steps went, by device; of many devices the least, the median and the most.
// One line, kTasksNotTimed, where that is not known.
std::string BreakdownText(const std::vector<engine::Breakdown>& devices);

// On stderr: flags of a file, session, data and how it is trained.
void SayFirstLinesOf(const TrainFlags& flags, const Session& session, const std::string& backend, const std::string& data,
                     const RunCourse& course);
nlohmann::ordered_json ReportJson(const TrainFlags& flags, const Session& session, const engine::Backend& backend,
                                  const TrainResults& results, const Evaluations& evaluations,
                                  const nlohmann::ordered_json& checkpoints);
void PrintReport(const TrainFlags& flags, const Session& session, const TrainResults& results,
                 const Evaluations& evaluations);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_TRAIN_REPORT_H_
