// The time of a clock that nobody sets: what durations are measured by.
#ifndef COLONNADE_BASE_STEADY_NOW_H_
#define COLONNADE_BASE_STEADY_NOW_H_

#include <chrono>

#include "absl/time/time.h"

namespace colonnade::base {

// Only the difference of two results means anything: unlike absl::Now() it is no date, and does not jump.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_STEADY_NOW_H_
