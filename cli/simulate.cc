#include <memory>

#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/prediction/prediction.h"
#include "cli/prediction/report.h"
#include "cli/session/devices.h"

namespace colonnade::cli {
namespace {

absl::Status RunSimulate(const PredictionFlags& flags) {
  RETURN_IF_ERROR(CheckOutputs(flags));
  ASSIGN_OR_RETURN(Prediction p, LowerForPrediction(flags));
  RETURN_IF_ERROR(Predict(flags, p));
  RETURN_IF_ERROR(WriteTimeline(flags, p));
  RETURN_IF_ERROR(WritePredictionReport(flags, "simulate", p));
  if (flags.json) {
    nlohmann::ordered_json json = {{"model", p.session.graph.name}};
    json.update(SettingsJson(p.session.plan));
    json.update({{"machine", p.machine.name},
                 {"machine_file", MachineFileJson(p.machine)},
                 {"global_batch", p.lower.global_batch},
                 {"kernels", KernelsJson(flags.backend, p.machine)},
                 {"dtype", flags.backend.dtype},
                 {"first_step_ms", Ms(p.simulation.first_step)},
                 {"predicted", PredictedJson(p)}});
    PrintJson(json);
    return absl::OkStatus();
  }
  PrintDevices(p);
  return absl::OkStatus();
}

}  // namespace

SubCommand AddSimulate(CLI::App& app) {
  CLI::App* simulate = app.add_subcommand("simulate", "Runs a Program on a machine profile; writes the timeline.");
  const auto flags = std::make_shared<PredictionFlags>();
  AddLoweringFlags(*simulate, *flags);
  simulate->add_option("--trace", flags->trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  AddPredictionFlags(*simulate, *flags);
  simulate->footer(
      "Examples:\n  colonnade simulate --model=alexnet2012 --batch=256 --devices=4 --plan=hybrid --machine=titan-2013\n"
      "  colonnade simulate --model=alexnet --batch=512 --devices=8 --plan=data --machine=dgx1-v100 --trace=t.json");
  return {simulate, [=] {
            flags->resolved = ResolvedFlags(*simulate);
            return RunSimulate(*flags);
          }};
}

}  // namespace colonnade::cli
