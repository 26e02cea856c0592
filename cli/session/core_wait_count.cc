#include "cli/session/core_wait_count.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/steady_now.h"
#include "cpu/threads/core_waits.h"

namespace colonnade::cli {

std::string BusyWarning(double waited_share) {
  constexpr double kMuchWaited = 0.1;
  if (waited_share < kMuchWaited) return "";
  return absl::StrFormat(
      "the machine was busy: a thread of a device waited for a core for %.0f %% of the time, so that times are too long; "
      "measure again when nothing else runs and no more threads compute than there are cores",
      100 * waited_share);
}

void CoreWaitCount::Begin() {
  before_ = cpu::CoreWaits();
  began_ = base::SteadyNow();
}

void CoreWaitCount::End() {
  passed_ += base::SteadyNow() - began_;
  waited_ += cpu::LongestWait(before_, cpu::CoreWaits());
}

double CoreWaitCount::share() const {
  return passed_ > absl::ZeroDuration() ? std::min(absl::FDivDuration(waited_, passed_), 1.0) : 0;
}

}  // namespace colonnade::cli
