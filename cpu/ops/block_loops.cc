#include "cpu/ops/block_loops.h"

#include "cpu/ops/instruction_set.h"

namespace colonnade::cpu {

const BlockLoops* FindBlockLoops() {
#if defined(__x86_64__)
  static const BlockLoops* const found = WidestOf(&kBlockLoopsAvx512, &kBlockLoopsAvx2);
  return found;
#else
  return nullptr;
#endif
}

}  // namespace colonnade::cpu
