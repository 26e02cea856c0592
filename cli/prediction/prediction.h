// What a plan comes to on a machine profile: what `plan` and `simulate` show.
#ifndef COLONNADE_CLI_PREDICTION_PREDICTION_H_
#define COLONNADE_CLI_PREDICTION_PREDICTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/command_line/flags.h"
#include "cli/output/progress.h"
#include "cli/session/session.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "nlohmann/json.hpp"
#include "partition/lower.h"
#include "partition/planner.h"
#include "program/representative_program.h"
#include "tools/intervals.h"
#include "tools/planning.h"

namespace colonnade::cli {

// The flags of `plan` and `simulate`.
struct PredictionFlags : SessionFlags {
  DrawFlags draws;
  std::string trace, report, config;
  std::vector<ResolvedFlag> resolved;  // every flag, which reports hold
  bool json = false;
  // plan
  std::string explain;  // a layer
  std::string save_plan, drawing;
  bool unfold = false;
};

// Adds those of both: the devices of a prediction, how sure it is, and where it is written.
void AddPredictionFlags(CLI::App& app, PredictionFlags& flags);

// Bytes that all devices send in a step.
struct SentBytes {
  std::map<std::string, int64_t> by_layer;  // of the values that each layer makes or needs
  int64_t gradients = 0;                    // to sum them, and to share what is updated by them
  int64_t statistics = 0;                   // to sum running statistics, which are sent together

  int64_t OfLayer(const std::string& layer) const {
    const auto found = by_layer.find(layer);
    return found == by_layer.end() ? 0 : found->second;
  }
};

struct Prediction {
  Session session;
  engine::Machine machine;
  partition::LowerOptions lower;
  program::RepresentativeProgram lowered;
  engine::Simulation simulation;                 // empty before Predict
  std::vector<partition::Candidate> candidates;  // of --plan=auto
  double least_sec = 0;                          // then: what no plan goes below
  // Steps on draws of what the profile is unsure of: of the plan, and behind it of the candidates of these ranks.
  std::optional<tools::DrawnSteps> drawn;
  std::vector<size_t> drawn_candidates;
  SentBytes sent;
};

// Returns all but the simulation: what can be said of a plan without a machine that runs it. Says the plan's notes.
absl::StatusOr<Prediction> LowerForPrediction(const PredictionFlags& flags);
// Simulates, and checks that the plan fits the devices' memory. With --draws also on draws of the profile.
absl::Status Predict(const PredictionFlags& flags, Prediction& prediction);

// Returns what repeats the fit that a profile states; nothing, and a warning on stderr, where that network cannot be had.
tools::Refit RefitOrWarn(const engine::Machine& machine);

// Returns the steps of the programs on --draws of a profile, each fitted anew by `refit`; none without draws, and, with a
// warning on stderr, where no draw can be fitted to `what`.
absl::StatusOr<std::optional<tools::DrawnSteps>> DrawOrWarn(
    const DrawFlags& flags, const engine::Machine& profile,
    const std::vector<const program::RepresentativeProgram*>& programs, const tools::Refit& refit, absl::string_view what);

// Returns milliseconds with two digits behind the point, or of less than a tenth the first two.
std::string TimeText(double ms);
// Returns images a second as a whole number, or of less than ten the first two digits.
std::string ImageRateText(double per_second);
// Returns what an interval of so many draws is of: "90 % of 100 draws", or that they are too few for it.
std::string DrawsText(int draws);
// The same above a column: "90 % of draws" or "of 3 draws"; empty without draws.
std::string DrawsTitle(int draws);

double ImagesPerSecond(const Prediction& prediction);
double Ms(absl::Duration duration);

// {"draws", "step_ms_low", "step_ms_high"} of the plan (0), or of the candidate behind drawn_candidates[program - 1].
nlohmann::ordered_json IntervalJson(const Prediction& prediction, size_t program);
nlohmann::ordered_json PredictedJson(const Prediction& prediction);
// {"plan", "mesh", "devices", "reduction", "overlap", "bucket_bytes", "transfer_parts"}
nlohmann::ordered_json SettingsJson(const partition::Plan& plan);
// Step time and images/s, and a line for each device, on stdout.
void PrintDevices(const Prediction& prediction);

// Whether all files that the flags name can be written, before anything is computed.
absl::Status CheckOutputs(const PredictionFlags& flags);
// --save-plan and --drawing, which need no machine.
absl::Status WritePlanFiles(const PredictionFlags& flags, const Prediction& prediction);
// --trace.
absl::Status WriteTimeline(const PredictionFlags& flags, const Prediction& prediction);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_PREDICTION_PREDICTION_H_
