// Plots as SVG: bars in groups, and lines.
#ifndef COLONNADE_TOOLS_PLOT_H_
#define COLONNADE_TOOLS_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace colonnade::tools {

struct BarSeries {
  std::string name;
  std::vector<double> values;                     // by category; below 0: no bar
  std::vector<std::pair<double, double>> ranges;  // of the values, drawn as error bars; empty: none
};
std::string BarChart(const std::string& title, const std::string& unit, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series);

struct LineSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite
  bool is_background = false;                     // drawn thin and pale
};
std::string LineChart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<LineSeries>& series);

// One below the other.
std::string Stacked(const std::vector<std::string>& charts);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_PLOT_H_
