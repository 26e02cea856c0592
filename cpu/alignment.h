// To what memory of the CPU backend is aligned: a cache line, which is also a vector of 512 bits.
#ifndef COLONNADE_CPU_ALIGNMENT_H_
#define COLONNADE_CPU_ALIGNMENT_H_

#include <cstdint>

namespace colonnade::cpu {

inline constexpr int64_t kAlignmentBytes = 64;
// The same where memory is counted in floats.
inline constexpr int64_t kAlignmentFloats = kAlignmentBytes / static_cast<int64_t>(sizeof(float));

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ALIGNMENT_H_
