// What `colonnade train` says of a run when it has ended.
#ifndef COLONNADE_CLI_TRAIN_REPORT_H_
#define COLONNADE_CLI_TRAIN_REPORT_H_

#include <cstdint>

#include "cli/session.h"
#include "engine/backend.h"
#include "engine/checkpoint.h"
#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// What a run gave, as far as it came.
struct TrainResults {
  engine::RunPosition from;  // where the run began
  engine::TrainReport report;
  engine::EvalReport test, test_of_averages;  // of no sample where the run was stopped
  bool stopped = false;

  int64_t steps_done() const { return from.step + static_cast<int64_t>(report.losses.size()); }

  double images_per_s(int64_t batch) const {
    const double seconds = absl::ToDoubleSeconds(report.elapsed);
    return seconds > 0 ? static_cast<double>(static_cast<int64_t>(report.losses.size()) * batch) / seconds : 0;
  }
};

nlohmann::ordered_json ReportJson(const Flags& flags, const Session& session, const engine::Backend& backend,
                                  const TrainResults& results, const nlohmann::ordered_json& checkpoints);
void PrintReport(const Flags& flags, const Session& session, const TrainResults& results);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAIN_REPORT_H_
