// What many measurements of one thing come to.
#ifndef COLONNADE_ENGINE_STATISTICS_H_
#define COLONNADE_ENGINE_STATISTICS_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace colonnade::engine {

// Returns the quantile of the values below which a fraction of them lies (0: the smallest, 1: the largest), linear between
// neighbours, as numpy.quantile; 0 if there are none. REQUIRES: 0 <= fraction <= 1.
double Quantile(std::vector<double> values, double fraction);
// Returns Quantile(values, 0.5): of an even number the mean of the two in the middle.
double Median(std::vector<double> values);
// Returns 0 if there are none. Means add up, as the tasks of a step do; medians do not.
double Mean(absl::Span<const double> values);
// Returns the indices of all values but the longest tenth, which something else on the machine made.
std::vector<size_t> WithoutTheLongest(absl::Span<const double> values);
// Returns the mean of those, which is what a step takes on the whole; 0 if there are none.
double TrimmedMean(absl::Span<const double> values);
// Returns √(upper quartile / lower quartile), at least 1; 0 where the lower quartile is not above 0, or there are none.
double FactorOfMiddleHalf(const std::vector<double>& values);
// Returns (largest − smallest) / median. REQUIRES: some values, and a median that is not 0.
double SpreadOf(const std::vector<double>& values);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_STATISTICS_H_
