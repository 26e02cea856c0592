// Plots as SVG, as a paper prints them: bars in groups, lines, and marks between ceilings, with titles at the axes. Any
// thread.
#ifndef COLONNADE_TOOLS_PLOT_H_
#define COLONNADE_TOOLS_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace colonnade::tools {

struct PlotTitles {
  std::string title, x, y;
};

struct BarSeries {
  std::string name;
  std::vector<double> values;                     // by category; below 0: no bar
  std::vector<std::pair<double, double>> ranges;  // of the values, drawn as error bars; empty: none
};
// Lines of a category's name are separated by \n; a line too long for its place is broken between words. `ideal`, a value
// for each category, is drawn as a line; empty: none.
std::string BarChart(const PlotTitles& titles, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, const std::vector<double>& ideal = {});

struct LineSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite
  bool is_background = false;                     // drawn thin and pale
};
std::string LineChart(const PlotTitles& titles, const std::vector<LineSeries>& series);

// One thing that was measured, at a place.
struct Mark {
  double x = 0, y = 0;  // above 0
  double weight = 0;    // what its area stands for
  std::string title;    // shown where the mouse rests
};
struct MarkSeries {
  std::string name;
  std::vector<Mark> marks;
};
// A line that no mark should be above, straight between two points on such axes.
struct Ceiling {
  std::pair<double, double> from, to;
  std::string name;
  bool named_at_end = false;  // else at its beginning
};
// Both axes by powers of ten, as far as marks and ceilings reach. Large marks lie below small ones.
std::string MarkChart(const PlotTitles& titles, const std::vector<MarkSeries>& series, const std::vector<Ceiling>& ceilings);

// Returns the charts as one picture, one below the other.
std::string Stacked(const std::vector<std::string>& charts);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_PLOT_H_
