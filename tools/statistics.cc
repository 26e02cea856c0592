#include "tools/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace colonnade::tools {

double Percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

double FactorOfMiddleHalf(const std::vector<double>& values) {
  const double lower = Percentile(values, 0.25), upper = Percentile(values, 0.75);
  return lower > 0 ? std::sqrt(upper / lower) : 0;
}

double SpreadOf(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return (*most - *least) / Median(values);
}

}  // namespace colonnade::tools
