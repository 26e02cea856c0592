#include "cpu/ops/row_loops.h"

namespace colonnade::cpu {

const RowLoops* FindRowLoops() {
#if defined(__x86_64__)
  static const RowLoops* const found = __builtin_cpu_supports("avx512f")                                 ? &kRowLoopsAvx512
                                       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kRowLoopsAvx2
                                                                                                         : nullptr;
  return found;
#else
  return nullptr;
#endif
}

}  // namespace colonnade::cpu
