// Mean and deviation of the pixels of a training set, by channel.
#ifndef COLONNADE_DATA_MOMENTS_H_
#define COLONNADE_DATA_MOMENTS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "data/augment.h"
#include "data/sample_set.h"
#include "program/op.h"

namespace colonnade::data {

struct Moments {
  std::vector<double> mean{}, std{};  // of values scaled to 0..1
  bool operator==(const Moments&) const = default;
};
inline constexpr double kLargestMean = 1, kLeastDeviation = 1e-40, kLargestDeviation = 1e6;

inline constexpr int64_t kMostMeasured = 2048;
struct MeasureOptions {
  int64_t border = 0;      // pixels on each side that do not count: zeros that were added
  bool skips_bad = false;  // else the error of a sample is returned
  int threads = 1;
  absl::Duration timeout = absl::Seconds(60);  // for one sample, as of a BatchRing
};
// Measures all images where the set says that they have one shape; else at most kMostMeasured evenly chosen ones, each
// as `view`, which draws nothing at random, shows it. Errors as CheckSamples, too.
absl::StatusOr<Moments> MeasureMoments(std::shared_ptr<const SampleSet> set, const AugmentOptions& view,
                                       const MeasureOptions& options);

// Repeats a single mean, or a single deviation, for each channel. FailedPrecondition, beginning with "mean: " or "std: ",
// where there is neither one number nor one for each channel, or a deviation is not above 0.
absl::Status SpreadOverChannels(int64_t channels, Moments& moments);

// Returns the scaling by which the device normalises bytes, of which `largest_value` stands for 1. REQUIRES: one number for
// each channel.
program::PixelScaling ScalingOf(const Moments& moments, double largest_value);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_MOMENTS_H_
