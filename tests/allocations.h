// What a call asks operator new for: readers of hostile files must not believe what those state, and steps allocate nothing.
//
// allocations.cc replaces operator new of the test program that links it. One thread measures at a time; allocations of all
// threads count.
#ifndef COLONNADE_TESTS_ALLOCATIONS_H_
#define COLONNADE_TESTS_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace colonnade {

size_t LargestAllocationIn(const std::function<void()>& f);
int64_t AllocationsIn(const std::function<void()>& f);
int64_t PeakBytesIn(const std::function<void()>& f);  // the most that it holds at once beyond what was held before

}  // namespace colonnade

#endif  // COLONNADE_TESTS_ALLOCATIONS_H_
