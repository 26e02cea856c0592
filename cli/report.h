// --report: one page of what a command found, made of it by tools/report.h.
#ifndef COLONNADE_CLI_REPORT_H_
#define COLONNADE_CLI_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/evaluations.h"
#include "cli/flags.h"
#include "cli/forecast.h"
#include "cli/prediction.h"
#include "cli/session.h"
#include "cli/train_report.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "engine/trace.h"
#include "program/program.h"
#include "tools/planning.h"
#include "tools/report.h"
#include "tools/report_figures.h"

namespace colonnade::cli {

// Parts of reports: a bar for what a device's step or its memory is made of, and figures of such bars.
tools::StackedBar BarOf(const std::string& label, const engine::Breakdown& breakdown);
tools::StackedBar BarOf(const std::string& label, const engine::SimulatedDevice& device);
tools::StackedBar BarOf(const std::string& label, const tools::MemoryParts& memory);
tools::ReportFigure StepFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars);
// With a line at `limit` bytes, if that is above 0.
tools::ReportFigure MemoryFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars, double limit = 0);

// Writes `report` of `colonnade COMMAND` with the configuration, the versions and the machine behind its sections. `profile`
// is that of its predictions; null: there are none.
absl::Status WriteReport(const Flags& flags, const std::string& command, const engine::Machine* profile,
                         tools::Report report);

// Of `plan` and `simulate`: nothing unless --report is given. `sections` follow the prediction.
absl::Status WritePredictionReport(const Flags& flags, const std::string& command, const Prediction& prediction,
                                   std::vector<tools::ReportSection> sections = {});

// Of `train`: what was measured beside the forecast, or why there is none. Nothing unless --report is given. `program` is
// that of training.
absl::Status WriteTrainReport(const Flags& flags, const Session& session, const absl::StatusOr<Forecast>& forecast,
                              const engine::Backend& backend, const program::Program& program, const TrainResults& results,
                              const Evaluations& evaluations);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_REPORT_H_
