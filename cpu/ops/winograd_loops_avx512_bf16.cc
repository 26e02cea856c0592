// The loops of winograd_loops.h that multiply in bf16; compiled for AVX-512 with AVX512_BF16 (CMakeLists.txt).
#if defined(__x86_64__)
#include "cpu/ops/avx512_bf16.h"
#include "cpu/ops/winograd_loops_body.h"

namespace colonnade::cpu {
constinit const WinogradLoops<Bf16> kWinograd3Avx512Bf16 = WinogradLoopsOf<Bf16, 3>("AVX512_BF16");
}  // namespace colonnade::cpu
#endif
