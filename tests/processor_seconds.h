// Time of the processor, for tests of how fast something grows: other processes do not count, but share the caches, so
// bounds leave a factor of two and more.
#ifndef COLONNADE_TESTS_PROCESSOR_SECONDS_H_
#define COLONNADE_TESTS_PROCESSOR_SECONDS_H_

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

namespace colonnade {

// Returns the processor seconds of the fastest of five runs.
inline double ProcessorSeconds(const std::function<void()>& run) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();
    run();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace colonnade

#endif  // COLONNADE_TESTS_PROCESSOR_SECONDS_H_
