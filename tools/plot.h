// Plots as SVG, as a paper prints them: bars in groups, and lines, with titles at the axes. Any thread.
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

// One below the other.
std::string Stacked(const std::vector<std::string>& charts);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_PLOT_H_
