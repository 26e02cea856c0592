// The loops of winograd_loops.h; compiled for AVX2 with FMA (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx2.h"
#include "cpu/ops/winograd_loops_body.h"

namespace colonnade::cpu {
constinit const WinogradLoops<float> kWinograd3Avx2 = WinogradLoopsOf<float, 3>("AVX2");
constinit const WinogradLoops<float> kWinograd5Avx2 = WinogradLoopsOf<float, 5>("AVX2");
}  // namespace colonnade::cpu
#endif
