// Which cores a virtual device runs on.
//
// Each device's lanes are pinned to a disjoint set of cores when there are enough. Otherwise a lane that is woken by another
// may land on another device's core, whose compute then waits for it. Any thread.
#ifndef COLONNADE_CPU_CORES_H_
#define COLONNADE_CPU_CORES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace colonnade::cpu {

// Returns the cores that this process may use, in ascending order; empty where the system does not say. Those of the calling
// thread's affinity mask, or, where OpenMP binds threads, of all its places: it has bound the first thread before main.
std::vector<int> CoresOfProcess();

// Returns the cores' worth of time that control groups grant this process, the least of its group and those above; nothing
// where there is no limit. `groups` lists the process's groups, as /proc/self/cgroup, and `root` holds them, as
// /sys/fs/cgroup.
std::optional<double> CoresGrantedToProcess(const std::string& groups = "/proc/self/cgroup",
                                            const std::string& root = "/sys/fs/cgroup");

// Returns how many threads can run at once: the cores of the process, or fewer where CoresGrantedToProcess says so; at
// least 1.
int UsableCores();

// Returns `cores` in the order of packages and, within one, of processor cores: threads of one processor core, which share
// its units, are neighbours. As they are given where the system does not say. `root` holds a folder for each, as
// /sys/devices/system/cpu.
std::vector<int> ByProcessorCore(std::vector<int> cores, const std::string& root = "/sys/devices/system/cpu");

// Returns the part of `cores` that belongs to device `device` of `devices`: contiguous parts that differ by one core at
// most. Empty, which means any core, where there are fewer cores than devices.
std::vector<int> CoresOfDevice(absl::Span<const int> cores, int device, int devices);

// Keeps the calling thread, and threads that it will start, to `cores`; where the system refuses, or `cores` is empty, it
// runs anywhere.
void KeepToCores(absl::Span<const int> cores);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CORES_H_
