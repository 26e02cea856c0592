// Which cores a virtual device runs on.
//
// Where there are cores enough, each device has cores of its own, which all its lanes keep to: a lane that is woken by
// another otherwise lands on the core of another device, whose compute then waits for it. Any thread.
#ifndef COLONNADE_CPU_CORES_H_
#define COLONNADE_CPU_CORES_H_

#include <vector>

#include "absl/types/span.h"

namespace colonnade::cpu {

// The cores that this process may use, in ascending order; empty where the system does not say.
std::vector<int> CoresOfProcess();

// The part of `cores` that is device `device`'s of `devices`: contiguous parts that differ by one core at most. Empty, which
// means any core, where there are fewer cores than devices.
std::vector<int> CoresOfDevice(absl::Span<const int> cores, int device, int devices);

// Keeps the calling thread, and threads that it will start, to `cores`; where the system refuses, or `cores` is empty, it
// runs anywhere.
void KeepToCores(absl::Span<const int> cores);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CORES_H_
