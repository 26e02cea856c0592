// The loops of winograd_loops.h; compiled for AVX2 with FMA (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx2.h"
#include "cpu/ops/winograd_loops_body.h"

namespace colonnade::cpu {
const WinogradLoops kWinogradLoopsAvx2 = {"AVX2",           ReadPatches, ReadTiles, WriteTiles,
                                          TransformWeights, AddWeights,  Multiply,  SumProducts};
}  // namespace colonnade::cpu
#endif
