#include "tools/report_figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "program/program.h"

namespace colonnade::tools {
namespace {

constexpr size_t kMostBars = 6000;
constexpr double kFigureWidth = 1100, kLaneLabels = 130, kFigureRight = 16, kTimelineTop = 54, kLane = 15, kDeviceGap = 9;
constexpr double kLeastBar = 0.4;  // pixels, so that short tasks are seen

struct Kind {
  const char* name;
  Paint paint;
};
constexpr int kForward = 0, kBackward = 1, kUpdate = 2, kTransfer = 3, kHost = 4;
const Kind kKinds[] = {{"forward", SeriesPaint(0)},
                       {"backward", SeriesPaint(1)},
                       {"update", SeriesPaint(2)},
                       {"transfer", SeriesPaint(4)},
                       {"input and results", SeriesPaint(3)}};

int KindOf(const engine::TraceEvent& event) {
  if (event.meeting >= 0) return kTransfer;
  switch (event.pass) {
    case program::Pass::kForward:
      return kForward;
    case program::Pass::kBackward:
      return kBackward;
    case program::Pass::kUpdate:
      return kUpdate;
    case program::Pass::kInput:
    case program::Pass::kOutput:
      break;
  }
  return kHost;
}

std::string TitleOf(const engine::TraceEvent& event) {
  const double start = absl::ToDoubleMilliseconds(event.start), end = absl::ToDoubleMilliseconds(event.end);
  std::string title = absl::StrFormat("%s %s, %s, device %d: %.3f to %.3f ms, %.3f ms", event.layer, event.name,
                                      program::Name(event.pass), event.device, start, end, end - start);
  if (event.flops > 0) absl::StrAppendFormat(&title, ", %.1f Mflop", static_cast<double>(event.flops) / 1e6);
  if (event.bytes_sent > 0) absl::StrAppend(&title, ", sends ", Bytes(event.bytes_sent));
  return title;
}

// How many devices, the first of them, have together no more bars than a page can hold.
int DevicesToShow(const engine::Trace& trace) {
  std::map<int, size_t> bars;
  for (const engine::TraceEvent& event : trace.events) ++bars[event.device];
  int devices = 0;
  size_t sum = 0;
  for (const auto& [device, count] : bars) {
    sum += count;
    if (devices > 0 && sum > kMostBars) break;
    ++devices;
  }
  return devices;
}

}  // namespace

Timeline DrawTimeline(const engine::Trace& trace) {
  Timeline timeline{.svg = "", .devices = DevicesToShow(trace)};
  std::map<std::pair<int, int>, double> lane_y;  // by device and lane
  double end_ms = 1e-6;
  for (const engine::TraceEvent& event : trace.events) {
    lane_y[{event.device, static_cast<int>(event.lane)}] = 0;
    end_ms = std::max(end_ms, absl::ToDoubleMilliseconds(event.end));
  }
  double y = 0;
  int devices = 0, last = -1;
  for (auto lane = lane_y.begin(); lane != lane_y.end();) {
    if (lane->first.first != last) {
      if (devices == timeline.devices) {
        lane_y.erase(lane, lane_y.end());
        break;
      }
      y += devices++ > 0 ? kDeviceGap : 0;
      last = lane->first.first;
    }
    lane->second = y;
    y += kLane;
    ++lane;
  }
  const double width = kFigureWidth - kLaneLabels - kFigureRight, bottom = kTimelineTop + y;
  Svg svg(kFigureWidth, bottom + 30);
  double x = kLaneLabels;
  for (const Kind& kind : kKinds) {
    svg.Rect(x, 14, 11, 11, kind.paint);
    svg.Text(x + 16, 24, kind.name);
    x += 40 + TextWidth(kind.name, 12);
  }
  int labelled = -1;
  for (const auto& [key, top] : lane_y) {
    if (key.first != labelled) {
      svg.Text(8, kTimelineTop + top + 11.5, absl::StrCat("device ", key.first), {.size = 11.5, .bold = true});
      labelled = key.first;
    }
    svg.Text(kLaneLabels - 8, kTimelineTop + top + 11.5, program::Name(static_cast<program::Lane>(key.second)),
             {.size = 11, .paint = Paint::kMuted, .anchor = Anchor::kEnd});
    svg.Rect(kLaneLabels, kTimelineTop + top + 1, width, kLane - 2, Paint::kPanel);
  }
  svg.Raw(absl::StrFormat(
      "<g class=\"ticks\" data-end=\"%.6f\" data-left=\"%g\" data-width=\"%g\" data-top=\"%g\" data-bottom=\"%g\">\n",
      end_ms, kLaneLabels, width, kTimelineTop, bottom));
  const double power = std::pow(10, std::floor(std::log10(end_ms / 8)));
  const double step = power * (end_ms / power > 80 ? 10 : end_ms / power > 40 ? 5 : end_ms / power > 16 ? 2 : 1);
  for (double ms = 0; ms <= end_ms; ms += step) {
    const double at = kLaneLabels + ms / end_ms * width;
    svg.Line(at, kTimelineTop - 4, at, bottom, Paint::kRule);
    svg.Text(at, kTimelineTop - 9, absl::StrFormat("%g%s", ms, ms == 0 ? " ms" : ""),
             {.size = 10.5, .paint = Paint::kMuted, .anchor = Anchor::kMiddle});
  }
  svg.Raw("</g>\n");
  svg.Raw(absl::StrFormat("<svg class=\"bars\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\">\n", kLaneLabels, kTimelineTop,
                          width, y));
  for (const engine::TraceEvent& event : trace.events) {
    const auto lane = lane_y.find({event.device, static_cast<int>(event.lane)});
    if (lane == lane_y.end()) continue;
    const double from = absl::ToDoubleMilliseconds(event.start) / end_ms * width;
    const double length = absl::ToDoubleMilliseconds(event.end - event.start) / end_ms * width;
    svg.Raw(absl::StrFormat("<rect x=\"%.3f\" y=\"%g\" width=\"%.3f\" height=\"%g\" class=\"%s\"><title>%s</title></rect>\n",
                            from, lane->second + 1.5, std::max(length, kLeastBar), kLane - 3,
                            FillClass(kKinds[KindOf(event)].paint), Escaped(TitleOf(event))));
  }
  svg.Raw("</svg>\n");
  timeline.svg = std::move(svg).Finish();
  return timeline;
}

std::string DrawStackedBars(const std::vector<StackedPart>& parts, const std::vector<StackedBar>& bars,
                            const std::function<std::string(double)>& text_of, double limit) {
  constexpr double kBar = 17, kGap = 6, kFirst = 44, kSumWidth = 100;
  double most = std::max(limit, 1e-12), labels = 40;
  for (const StackedBar& bar : bars) {
    most = std::max(most, std::accumulate(bar.values.begin(), bar.values.end(), 0.0));
    labels = std::max(labels, TextWidth(bar.label, 12));
  }
  labels = std::min(labels + 10, 280.0);
  const double width = kFigureWidth - labels - kSumWidth;
  Svg svg(kFigureWidth, kFirst + static_cast<double>(bars.size()) * (kBar + kGap) + 8);
  double x = labels;
  for (const StackedPart& part : parts) {
    svg.Rect(x, 10, 11, 11, part.paint);
    svg.Text(x + 16, 20, part.name);
    x += 40 + TextWidth(part.name, 12);
  }
  double y = kFirst;
  for (const StackedBar& bar : bars) {
    svg.Text(labels - 8, y + 13, Clipped(bar.label, 12, labels), {.anchor = Anchor::kEnd});
    double at = labels, sum = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      const double length = bar.values[p] / most * width;
      if (length > 0) {
        svg.BeginGroup(absl::StrCat(bar.label, ", ", parts[p].name, ": ", text_of(bar.values[p])));
        svg.Rect(at, y, length, kBar, parts[p].paint);
        svg.EndGroup();
      }
      at += length;
      sum += bar.values[p];
    }
    svg.Text(at + 8, y + 13, text_of(sum));
    y += kBar + kGap;
  }
  if (limit > 0) {
    const double line = labels + limit / most * width;
    svg.Line(line, kFirst - 8, line, y, Paint::kInk, {.width = 1.4, .dashes = "5 3"});
    svg.Text(line, kFirst - 12, absl::StrCat("a device has ", text_of(limit)), {.size = 11, .anchor = Anchor::kEnd});
  }
  return std::move(svg).Finish();
}

}  // namespace colonnade::tools
