#include "cpu/ops/row_loops.h"

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {

const RowLoops* FindRowLoops() {
#if defined(__x86_64__)
  static const RowLoops* const found = WidestOf(&kRowLoopsAvx512, &kRowLoopsAvx2);
  return found;
#else
  return nullptr;
#endif
}

}  // namespace colonnade::cpu
