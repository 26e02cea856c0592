// --report: one page of what a command found, made of it by tools/report.h.
#ifndef COLONNADE_CLI_PREDICTION_REPORT_H_
#define COLONNADE_CLI_PREDICTION_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line/flags.h"
#include "cli/prediction/prediction.h"
#include "cli/session/session.h"
#include "cli/training/evaluations.h"
#include "cli/training/forecast.h"
#include "cli/training/train_flags.h"
#include "cli/training/train_report.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "engine/trace.h"
#include "program/program.h"
#include "tools/memory_fit.h"
#include "tools/planning.h"
#include "tools/report.h"
#include "tools/report_figures.h"

namespace colonnade::cli {

// Parts of reports: BarOf shows what a device's step or its memory is made of; the figures are made of such bars.
tools::StackedBar BarOf(const std::string& label, const engine::Breakdown& breakdown);
tools::StackedBar BarOf(const std::string& label, const tools::MemoryParts& memory);
tools::ReportFigure StepFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars);
// Draws a line at `limit` bytes, if that is above 0.
tools::ReportFigure MemoryFigure(const std::string& caption, const std::vector<tools::StackedBar>& bars, double limit = 0);
// Shows the first devices only where there are many, and says so in its caption, which begins with `what`.
tools::ReportFigure TimelineFigure(const std::string& what, const engine::Trace& trace, int devices);

// Writes `report` of `colonnade COMMAND` to `path`, with its flags, the versions and the machine after its sections.
// `profile` is the one that its predictions were made with; null where it has none.
absl::Status WriteReport(const std::string& path, const std::string& command, const std::vector<ResolvedFlag>& flags,
                         const engine::Machine* profile, tools::Report report);

// Writes the report of `plan` and `simulate`, if --report is given. `sections` follow the prediction.
absl::Status WritePredictionReport(const PredictionFlags& flags, const std::string& command, const Prediction& prediction,
                                   std::vector<tools::ReportSection> sections = {});

// Writes the report of `train`, if --report is given: what was measured beside the forecast, or why there is none. `program`
// is the Program of training.
absl::Status WriteTrainReport(const TrainFlags& flags, const Session& session, const absl::StatusOr<Forecast>& forecast,
                              const engine::Backend& backend, const program::Program& program, const TrainResults& results,
                              const Evaluations& evaluations);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_PREDICTION_REPORT_H_
