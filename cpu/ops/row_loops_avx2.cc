// The loops of row_loops.h in 16 registers of 8 floats; compiled for AVX2 with FMA (CMakeLists.txt).
#if defined(__x86_64__)
#define COLONNADE_ROW_OUTPUTS 4
#define COLONNADE_ROW_EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#include "cpu/ops/avx2.h"
#include "cpu/ops/row_loops_body.h"

namespace colonnade::cpu {
const RowLoops kRowLoopsAvx2 = {kLanes, COLONNADE_ROW_OUTPUTS, kAccumulators, Convolve, AddGradient, TakeCells, AddRow};
}  // namespace colonnade::cpu
#endif
