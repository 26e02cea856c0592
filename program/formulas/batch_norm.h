// What the kernels of batch normalisation share: the step from a channel's sums to the map of its elements.
//
// Σx and Σx² are sums in double of values of at most 24 significant bits, whose squares have 48, so that each product is
// exact and what is lost is the rounding of the additions: of `count` additions, at most count·2⁻⁵³ of Σx². So
//   |error of var| ≤ count·2⁻⁵³ · (var + mean²),
// and where roundings are independent about sqrt(count)·2⁻⁵³ · (var + mean²). With count = 10⁶ and |mean| = 1000 standard
// deviations that is 10⁻⁴ of var at the worst and 10⁻⁷ where they are independent; sums in f32 would keep no digit.
#ifndef COLONNADE_PROGRAM_FORMULAS_BATCH_NORM_H_
#define COLONNADE_PROGRAM_FORMULAS_BATCH_NORM_H_

#include <cmath>
#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

struct ChannelMoments {
  double mean = 0, variance = 0;
};
COLONNADE_HOST_DEVICE inline ChannelMoments ComputeMoments(double sum, double sum_of_squares, int64_t count) {
  const double mean = sum / static_cast<double>(count);
  const double variance = sum_of_squares / static_cast<double>(count) - mean * mean;
  return {mean, variance > 0 ? variance : 0};
}

// x̂ = (x − mean)·scale.
struct Normalisation {
  double mean = 0, scale = 1;
};
COLONNADE_HOST_DEVICE inline Normalisation NormalisationOf(double sum, double sum_of_squares, int64_t count,
                                                           double epsilon) {
  const ChannelMoments moments = ComputeMoments(sum, sum_of_squares, count);
  return {moments.mean, 1 / std::sqrt(moments.variance + epsilon)};
}

// Returns the factor of a channel's weights where a normalisation of weight `w` becomes part of them.
COLONNADE_HOST_DEVICE inline double FoldedFactor(double w, double variance, double epsilon) {
  return w / std::sqrt((variance > 0 ? variance : 0) + epsilon);
}

// Returns the unbiased variance of `count` elements, from the biased one; for one element the variance as it is.
COLONNADE_HOST_DEVICE inline double Unbiased(double variance, int64_t count) {
  return count > 1 ? variance * (static_cast<double>(count) / static_cast<double>(count - 1)) : variance;
}

// Returns a running mean or variance as it is after a batch.
COLONNADE_HOST_DEVICE inline double Tracked(double running, double of_batch, double momentum) {
  return (1 - momentum) * running + momentum * of_batch;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_BATCH_NORM_H_
