#include "engine/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace colonnade::engine {

double Quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = fraction * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

double Mean(absl::Span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<size_t> WithoutTheLongest(absl::Span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  order.resize(values.size() - values.size() / 10);
  return order;
}

double TrimmedMean(absl::Span<const double> values) {
  std::vector<double> kept;
  for (size_t i : WithoutTheLongest(values)) kept.push_back(values[i]);
  return Mean(kept);
}

double FactorOfMiddleHalf(const std::vector<double>& values) {
  const double lower = Quantile(values, 0.25), upper = Quantile(values, 0.75);
  return lower > 0 ? std::sqrt(upper / lower) : 0;
}

double SpreadOf(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return (*most - *least) / Median(values);
}

}  // namespace colonnade::engine
