// The curves of a run (--curves): training loss and test accuracy over steps, drawn from the run's log.
#ifndef COLONNADE_CLI_TRAINING_CURVES_H_
#define COLONNADE_CLI_TRAINING_CURVES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/command_line/flags.h"

namespace colonnade::cli {

using Curve = std::vector<std::pair<double, double>>;  // by step

struct RunCurves {
  Curve loss;        // of each step; without those that are not finite
  Curve top1, top5;  // of each test, in percent
};

// Returns what a log says of the steps that were kept: a run that goes on takes the place of later steps. Lines that are
// none of a log's are passed over.
RunCurves CurvesOf(absl::string_view log);

// Returns the running mean, in which a value `window` steps back weighs 1/e.
Curve Smoothed(const Curve& curve, double window);
// Returns at most 2 · `buckets` of the points, among them the lowest and the highest of each bucket.
Curve Thinned(const Curve& curve, size_t buckets);

// As SVG.
std::string DrawCurves(const std::string& title, const RunCurves& curves);

// Draws --curves, if it is asked for, from the log of the run.
absl::Status WriteCurves(const RecordFlags& flags, const std::string& title);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_CURVES_H_
