// Whether the system counts how long threads run and wait for a core.
#ifndef COLONNADE_TESTS_COUNTS_CORE_WAITS_H_
#define COLONNADE_TESTS_COUNTS_CORE_WAITS_H_

#include <cstdint>
#include <fstream>

namespace colonnade {

inline bool CountsCoreWaits() {
  int64_t ran_ns = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran_ns;
  return ran_ns > 0;
}

}  // namespace colonnade

#endif  // COLONNADE_TESTS_COUNTS_CORE_WAITS_H_
