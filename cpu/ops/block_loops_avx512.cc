// The loops of block_loops.h in vectors of 16 floats; compiled for AVX-512 (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx512.h"
#include "cpu/ops/block_loops_body.h"

namespace colonnade::cpu {
const BlockLoops kBlockLoopsAvx512 = {"AVX-512", LrnForward, LrnBackward, TakeMaxima, GiveGradients};
}  // namespace colonnade::cpu
#endif
