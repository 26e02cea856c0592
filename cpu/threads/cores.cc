#include "cpu/threads/cores.h"

#include <pthread.h>
#include <sched.h>

#include <cstddef>

namespace colonnade::cpu {

std::vector<int> CoresOfProcess() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> CoresOfDevice(absl::Span<const int> cores, int device, int devices) {
  const size_t begin = cores.size() * device / devices, end = cores.size() * (device + 1) / devices;
  if (cores.size() < static_cast<size_t>(devices)) return {};
  return {cores.begin() + begin, cores.begin() + end};
}

void KeepToCores(absl::Span<const int> cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace colonnade::cpu
