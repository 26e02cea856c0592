// Numbers below the least normal one, on which some processors compute many times slower than on others.
//
// The momenta of a filter that is dead shrink to such numbers and stay there: a tenth less of a few units in the last place
// rounds to as many. Instructions on bf16 flush them whatever a thread asks for.
#ifndef COLONNADE_CPU_DENORMALS_H_
#define COLONNADE_CPU_DENORMALS_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace colonnade::cpu {

// Lets the calling thread, and those that it will start, take denormals for zeros, and write zeros for them. Does nothing
// where the processor is not an x86.
inline void FlushDenormals() {
#if defined(__x86_64__)
  constexpr unsigned kDenormalsAreZeros = 0x0040, kFlushToZero = 0x8000;
  _mm_setcsr(_mm_getcsr() | kDenormalsAreZeros | kFlushToZero);
#endif
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_DENORMALS_H_
