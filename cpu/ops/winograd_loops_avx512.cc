// The loops of winograd_loops.h; compiled for AVX-512 (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx512.h"
#include "cpu/ops/winograd_loops_body.h"

namespace colonnade::cpu {
constinit const WinogradLoops<float> kWinograd3Avx512 = WinogradLoopsOf<float, 3>("AVX-512");
constinit const WinogradLoops<float> kWinograd5Avx512 = WinogradLoopsOf<float, 5>("AVX-512");
}  // namespace colonnade::cpu
#endif
