#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/prediction/prediction.h"
#include "cli/prediction/report.h"
#include "cli/session/devices.h"

namespace colonnade::cli {

absl::Status RunSimulate(const Flags& flags) {
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
                 {"kernels", KernelsJson(flags, p.machine)},
                 {"dtype", flags.dtype},
                 {"first_step_ms", Ms(p.simulation.first_step)},
                 {"predicted", PredictedJson(p)}});
    PrintJson(json);
    return absl::OkStatus();
  }
  PrintDevices(p);
  return absl::OkStatus();
}

}  // namespace colonnade::cli
