// The loops of winograd_loops.h; compiled for AVX-512 (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx512.h"
#include "cpu/ops/winograd_loops_body.h"

namespace colonnade::cpu {
const WinogradLoops kWinogradLoopsAvx512 = {"AVX-512",        ReadPatches, ReadTiles, WriteTiles,
                                            TransformWeights, AddWeights,  Multiply,  SumProducts};
}  // namespace colonnade::cpu
#endif
