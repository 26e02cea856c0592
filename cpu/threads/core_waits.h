// How long the threads of devices that compute had to wait for a core that others used.
#ifndef COLONNADE_CPU_CORE_WAITS_H_
#define COLONNADE_CPU_CORE_WAITS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace colonnade::cpu {

// Names the calling thread, and threads that it will start, as those that compute on `device`: what debuggers and top show.
void NameComputeThread(int device);

// Returns for each thread that is so named, by its number, how long it was ready to run since it began while no core ran it.
// Empty where the system does not say. `tasks` holds a folder for each thread of the process, as /proc/self/task.
std::map<int, absl::Duration> CoreWaits(const std::string& tasks = "/proc/self/task");

// Returns the longest wait of a thread that is in both, between them; zero where there is none.
absl::Duration LongestWait(const std::map<int, absl::Duration>& before, const std::map<int, absl::Duration>& after);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CORE_WAITS_H_
