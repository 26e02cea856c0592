// Refuses memory of virtual devices, as a machine does that has not so much.
//
// refused_memory.cc replaces aligned_alloc, which arenas alone ask, in the test program that links it.
#ifndef COLONNADE_TESTS_CPU_REFUSED_MEMORY_H_
#define COLONNADE_TESTS_CPU_REFUSED_MEMORY_H_

namespace colonnade::cpu {

// While it lives, the `at`-th request for aligned memory is refused, counted from 0.
class RefusedMemory {
 public:
  explicit RefusedMemory(int at);
  ~RefusedMemory();
  RefusedMemory(const RefusedMemory&) = delete;
  RefusedMemory& operator=(const RefusedMemory&) = delete;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_TESTS_CPU_REFUSED_MEMORY_H_
