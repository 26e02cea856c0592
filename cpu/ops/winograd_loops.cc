#include "cpu/ops/winograd_loops.h"

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {

const WinogradLoops* FindWinogradLoops() {
#if defined(__x86_64__)
  static const WinogradLoops* const found = WidestOf(&kWinogradLoopsAvx512, &kWinogradLoopsAvx2);
  return found;
#else
  return nullptr;
#endif
}

}  // namespace colonnade::cpu
