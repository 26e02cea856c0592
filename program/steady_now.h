// The time of a clock that nobody sets: what durations are measured by.
#ifndef COLONNADE_PROGRAM_STEADY_NOW_H_
#define COLONNADE_PROGRAM_STEADY_NOW_H_

#include <chrono>

#include "absl/time/time.h"

namespace colonnade::program {

// Only the difference of two results means anything: unlike absl::Now() it is no date, and does not jump.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_STEADY_NOW_H_
