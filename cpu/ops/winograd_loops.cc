#include "cpu/ops/winograd_loops.h"

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {

#if defined(__x86_64__)
template <>
const WinogradLoops<float>* FindWinogradLoops(std::int64_t window) {
  static const WinogradLoops<float>* const of_3 = WidestOf(&kWinograd3Avx512, &kWinograd3Avx2);
  static const WinogradLoops<float>* const of_5 = WidestOf(&kWinograd5Avx512, &kWinograd5Avx2);
  return window == 3 ? of_3 : window == 5 ? of_5 : nullptr;
}
template <>
const WinogradLoops<Bf16>* FindWinogradLoops(std::int64_t window) {
  return window == 3 && HasAvx512Bf16() ? &kWinograd3Avx512Bf16 : nullptr;
}
#else
template <>
const WinogradLoops<float>* FindWinogradLoops(std::int64_t) {
  return nullptr;
}
template <>
const WinogradLoops<Bf16>* FindWinogradLoops(std::int64_t) {
  return nullptr;
}
#endif

}  // namespace colonnade::cpu
