// The loops of block_loops.h in vectors of 8 floats; compiled for AVX2 with FMA (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx2.h"
#include "cpu/ops/block_loops_body.h"

namespace colonnade::cpu {
const BlockLoops kBlockLoopsAvx2 = {"AVX2", LrnForward, LrnBackward, TakeMaxima, GiveGradients};
}  // namespace colonnade::cpu
#endif
