// What many measurements of one thing come to.
#ifndef COLONNADE_TOOLS_STATISTICS_H_
#define COLONNADE_TOOLS_STATISTICS_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace colonnade::tools {

// The value that a share `part` of the way from the smallest to the largest, counted in values, leads to; between two values
// it is linear, as NumPy's is by default: 0 gives the smallest, 1 the largest. 0 of nothing.
// REQUIRES: 0 <= part <= 1.
double Percentile(std::vector<double> values, double part);
// The one in the middle, Percentile(values, 0.5): of an even number the mean of the two there.
double Median(std::vector<double> values);
// 0 of nothing. Means add up, as the tasks of a step do; medians do not.
double Mean(absl::Span<const double> values);
// The indices of all values but the longest tenth, which something else on the machine made.
std::vector<size_t> WithoutTheLongest(absl::Span<const double> values);
// What a step takes on the whole: the mean of those. 0 of nothing.
double TrimmedMean(absl::Span<const double> values);
// The factor by which the middle half of them lies to either side of its own middle: the root of the upper quartile over the
// lower one, 1 or more. 0, for unknown, where the lower quartile is not above 0, and of nothing.
double FactorOfMiddleHalf(const std::vector<double>& values);
// By how much they differ: the largest less the smallest, over the median. REQUIRES: some, and a median that is not 0.
double SpreadOf(const std::vector<double>& values);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_STATISTICS_H_
