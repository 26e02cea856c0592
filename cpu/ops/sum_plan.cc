#include "cpu/ops/sum_plan.h"

#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"

namespace colonnade::cpu {

COLONNADE_VECTOR_CLONES void AddNeighbours(int64_t count, const program::BFloat16* x, float* total) {
  for (int64_t i = 0; i < count; ++i) total[i] += x[i];
}

COLONNADE_VECTOR_CLONES void PutNeighbours(int64_t count, const float* total, program::BFloat16* y) {
  for (int64_t i = 0; i < count; ++i) Put(total[i], y[i]);
}

}  // namespace colonnade::cpu
