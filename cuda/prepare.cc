#include "cuda/prepare.h"

#include "cuda/conv.h"
#include "cuda/copy.h"
#include "cuda/elementwise.h"
#include "cuda/gemm.h"
#include "cuda/lrn.h"
#include "cuda/optimizer.h"
#include "cuda/pool.h"
#include "cuda/softmax.h"

namespace colonnade::cuda {

PreparedTask PrepareCompute(const program::Op& op, const TaskContext& context) {
  return std::visit([&](const auto& attributes) { return Prepare(attributes, context); }, op);
}

}  // namespace colonnade::cuda
