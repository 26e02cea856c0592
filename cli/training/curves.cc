#include "cli/training/curves.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/training/run_log.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"
#include "tools/plot.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBuckets = 500;  // of a chart of 676 pixels
constexpr double kWindowShare = 0.02;

bool HasNumber(const Json& object, const char* key) { return object.contains(key) && object[key].is_number(); }

void DropAfter(double step, Curve& curve) {
  std::erase_if(curve, [&](const auto& point) { return point.first > step; });
}

void AddLine(const Json& line, RunCurves& curves) {
  if (line.contains(kLogVersionKey) && HasNumber(line, "first_step")) {
    for (Curve* curve : {&curves.loss, &curves.top1, &curves.top5}) DropAfter(line["first_step"], *curve);
  }
  if (!HasNumber(line, "step")) return;
  if (HasNumber(line, "loss")) curves.loss.emplace_back(line["step"], line["loss"]);
  if (!line.contains("test") || !line["test"].is_object()) return;
  const Json& test = line["test"];
  if (HasNumber(test, "top1")) curves.top1.emplace_back(line["step"], 100 * test["top1"].get<double>());
  if (HasNumber(test, "top5")) curves.top5.emplace_back(line["step"], 100 * test["top5"].get<double>());
}

}  // namespace

RunCurves CurvesOf(absl::string_view log) {
  RunCurves curves;
  for (absl::string_view text : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const Json line = ParseLogLine(text);
    if (line.is_object()) AddLine(line, curves);
  }
  return curves;
}

Curve Smoothed(const Curve& curve, double window) {
  Curve smooth;
  double sum = 0, weight = 0, before = curve.empty() ? 0 : curve.front().first;
  for (const auto& [step, value] : curve) {
    const double stays = window > 0 ? std::exp(-(step - before) / window) : 0;
    sum = stays * sum + value;
    weight = stays * weight + 1;
    before = step;
    smooth.emplace_back(step, sum / weight);
  }
  return smooth;
}

Curve Thinned(const Curve& curve, size_t buckets) {
  if (curve.size() <= 2 * buckets) return curve;
  Curve thin;
  const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
  for (size_t b = 0; b < buckets; ++b) {
    const auto begin = curve.begin() + static_cast<ptrdiff_t>(b * curve.size() / buckets);
    const auto end = curve.begin() + static_cast<ptrdiff_t>((b + 1) * curve.size() / buckets);
    const auto [lowest, highest] = std::minmax_element(begin, end, by_value);
    thin.push_back(*std::min(lowest, highest));
    if (lowest != highest) thin.push_back(*std::max(lowest, highest));
  }
  return thin;
}

std::string DrawCurves(const std::string& title, const RunCurves& curves) {
  const Curve smooth = Smoothed(curves.loss, kWindowShare * static_cast<double>(curves.loss.size()));
  std::vector<std::string> charts = {
      tools::LineChart({title, "steps", "training loss"},
                       {{.name = "of each step", .points = Thinned(curves.loss, kBuckets), .is_background = true},
                        {.name = "smoothed", .points = Thinned(smooth, kBuckets)}})};
  if (!curves.top1.empty()) {
    charts.push_back(
        tools::LineChart({"", "steps", "test accuracy, %"}, {{.name = "top-1", .points = Thinned(curves.top1, kBuckets)},
                                                             {.name = "top-5", .points = Thinned(curves.top5, kBuckets)}}));
  }
  return tools::Stacked(charts);
}

absl::Status WriteCurves(const RecordFlags& flags, const std::string& title) {
  if (flags.curves.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string log, engine::ReadFile(LogPathOf(flags), kLargestLog));
  return engine::ReplaceFile(flags.curves, DrawCurves(title, CurvesOf(log)));
}

}  // namespace colonnade::cli
