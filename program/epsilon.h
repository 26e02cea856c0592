// What stands beside a variance so that its root is no divisor of 0: above 0 in f32, too, and no subnormal, which GPUs and
// CPU devices take for 0. Any thread may call this.
#ifndef COLONNADE_PROGRAM_EPSILON_H_
#define COLONNADE_PROGRAM_EPSILON_H_

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace colonnade::program {

inline constexpr double kLeastEpsilon = std::numeric_limits<float>::min();

// AdamW's: a gradient below 3.4e-16 has a square that f32 takes for 0, at a decay rate of up to 0.9999999, so that the step
// is the first moment over epsilon, which stays below the rate.
inline constexpr double kLeastAdamEpsilon = 1e-15;

// Returns InvalidArgument unless it is the epsilon of a normalisation, from kLeastEpsilon to 1.
inline absl::Status CheckEpsilon(double epsilon) {
  if (epsilon >= kLeastEpsilon && epsilon <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("expected an epsilon from %.2g (less may be 0 in f32) to 1, found %g", kLeastEpsilon, epsilon));
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_EPSILON_H_
