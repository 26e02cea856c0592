// The loops of row_loops.h in 32 registers of 16 floats; compiled for AVX-512 (CMakeLists.txt).
#if defined(__x86_64__)
#define COLONNADE_ROW_OUTPUTS 8
#define COLONNADE_ROW_EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#include "cpu/ops/avx512.h"
#include "cpu/ops/row_loops_body.h"

namespace colonnade::cpu {
const RowLoops kRowLoopsAvx512 = {kLanes, COLONNADE_ROW_OUTPUTS, kAccumulators, Convolve, AddGradient, TakeCells, AddRow};
}  // namespace colonnade::cpu
#endif
