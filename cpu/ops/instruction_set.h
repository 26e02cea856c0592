// Chooses, among loops that are compiled once for each instruction set, those that this processor can run.
#ifndef COLONNADE_CPU_INSTRUCTION_SET_H_
#define COLONNADE_CPU_INSTRUCTION_SET_H_

namespace colonnade::cpu {

#if defined(__x86_64__)
inline bool HasAvx512() { return __builtin_cpu_supports("avx512f"); }
inline bool HasAvx512Bf16() { return __builtin_cpu_supports("avx512bf16"); }
inline bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
inline bool HasAvx512() { return false; }
inline bool HasAvx512Bf16() { return false; }
inline bool HasAvx2() { return false; }
#endif

// Returns the loops for the widest vectors that this processor has; null where it has neither set.
template <class Loops>
const Loops* WidestOf(const Loops* avx512, const Loops* avx2) {
  return HasAvx512() ? avx512 : HasAvx2() ? avx2 : nullptr;
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_INSTRUCTION_SET_H_
