// Whether the machine was busy while steps were timed: how long threads of devices waited for a core. One thread.
#ifndef COLONNADE_CLI_SESSION_CORE_WAIT_COUNT_H_
#define COLONNADE_CLI_SESSION_CORE_WAIT_COUNT_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace colonnade::cli {

// Returns what to say where threads waited for cores for this share of the time, from 0 to 1; "" below a tenth.
std::string BusyWarning(double waited_share);

// Adds up the time between Begin and End, and how much of each the thread of a device waited that waited most. Threads that
// begin or end between the two are not counted, nor is anything where the system does not say it (cpu::CoreWaits).
class CoreWaitCount {
 public:
  void Begin();
  void End();
  double share() const;

 private:
  absl::Time began_;
  std::map<int, absl::Duration> before_;
  absl::Duration waited_, passed_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_CORE_WAIT_COUNT_H_
