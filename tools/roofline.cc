#include "tools/roofline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/plot.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

constexpr double kGiga = 1e9;
constexpr char kOthers[] = "others";

Mark MarkOf(const program::Task& task, double seconds) {
  const auto flops = static_cast<double>(task.work.flops);
  const auto bytes = static_cast<double>(task.work.bytes_moved());
  return {.x = flops / bytes,
          .y = flops / seconds / kGiga,
          .weight = seconds,
          .title = absl::StrFormat("%s %s, device %d: %.3f ms, %.2f GFLOP/s, %.2f GB/s", task.provenance.layer,
                                   program::Name(task), task.device, 1e3 * seconds, flops / seconds / kGiga,
                                   bytes / seconds / kGiga)};
}

double TimeOf(const MarkSeries& series) {
  double seconds = 0;
  for (const Mark& mark : series.marks) seconds += mark.weight;
  return seconds;
}

// The kind that takes the longest first; those that no colour is left for are one.
std::vector<MarkSeries> ByTime(std::map<std::string, MarkSeries> kinds) {
  std::vector<MarkSeries> series;
  for (auto& [name, kind] : kinds) series.push_back(std::move(kind));
  std::stable_sort(series.begin(), series.end(),
                   [](const MarkSeries& a, const MarkSeries& b) { return TimeOf(a) > TimeOf(b); });
  while (series.size() > kSeriesColours) {
    std::vector<Mark> marks = std::move(series.back().marks);
    series.pop_back();
    series.back().name = kOthers;
    series.back().marks.insert(series.back().marks.end(), marks.begin(), marks.end());
  }
  return series;
}

// Past the least and the most flop per byte of a mark, so that a name has room, and past the ridge, where they meet.
std::vector<Ceiling> CeilingsOver(const std::vector<MarkSeries>& series, const Ceilings& ceilings) {
  const double ridge = ceilings.flops_per_sec / ceilings.bytes_per_sec, top = ceilings.flops_per_sec / kGiga;
  double least = ridge / 10, most = ridge * 10;
  for (const MarkSeries& kind : series) {
    for (const Mark& mark : kind.marks) least = std::min(least, mark.x / 3), most = std::max(most, mark.x);
  }
  return {{{least, least * ceilings.bytes_per_sec / kGiga},
           {ridge, top},
           absl::StrFormat("%.3g GB/s", ceilings.bytes_per_sec / kGiga)},
          {{ridge, top}, {most, top}, absl::StrFormat("%.3g GFLOP/s", top), /*named_at_end=*/true}};
}

}  // namespace

std::string RooflineAsSvg(const std::string& title, const program::Program& program, const std::vector<double>& seconds,
                          const Ceilings& ceilings) {
  std::map<std::string, MarkSeries> kinds;
  for (const program::Task& task : program.tasks) {
    if (task.work.flops <= 0 || task.work.bytes_moved() <= 0 || seconds[task.id.value] <= 0) continue;
    MarkSeries& kind = kinds[program::Name(task)];
    kind.name = program::Name(task);
    kind.marks.push_back(MarkOf(task, seconds[task.id.value]));
  }
  const std::vector<MarkSeries> series = ByTime(std::move(kinds));
  return MarkChart({title, "flop per byte read or written", "GFLOP/s"}, series, CeilingsOver(series, ceilings));
}

}  // namespace colonnade::tools
