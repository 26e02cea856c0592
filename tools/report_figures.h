// The figures that a report alone has (report.h), as SVG. Any thread.
#ifndef COLONNADE_TOOLS_REPORT_FIGURES_H_
#define COLONNADE_TOOLS_REPORT_FIGURES_H_

#include <functional>
#include <string>
#include <vector>

#include "engine/trace.h"
#include "tools/svg.h"

namespace colonnade::tools {

struct Timeline {
  std::string svg;
  int devices = 0;  // of which tasks are shown: as many, the first, as a page can hold, and at least one
};
// Draws a row for each lane of a device that does anything, and a bar for each task. Its class is "timeline", that of the
// part which can be zoomed "bars"; the titles of bars say what they are.
Timeline DrawTimeline(const engine::Trace& trace);

struct StackedBar {
  std::string label;
  std::vector<double> values;  // by part
};
struct StackedPart {
  std::string name;
  Paint paint = Paint::kNeutral;
};
// Horizontal bars, with their sums behind them; a line at `limit`, if that is above 0.
std::string DrawStackedBars(const std::vector<StackedPart>& parts, const std::vector<StackedBar>& bars,
                            const std::function<std::string(double)>& text_of, double limit = 0);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_REPORT_FIGURES_H_
