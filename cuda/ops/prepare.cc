#include "cuda/ops/prepare.h"

#include "base/status_macros.h"
#include "cuda/ops/batch_norm.h"
#include "cuda/ops/conv.h"
#include "cuda/ops/copy.h"
#include "cuda/ops/elementwise.h"
#include "cuda/ops/gemm.h"
#include "cuda/ops/layer_norm.h"
#include "cuda/ops/lrn.h"
#include "cuda/ops/optimizer.h"
#include "cuda/ops/pool.h"
#include "cuda/ops/softmax.h"
#include "program/op_traits.h"

namespace colonnade::cuda {

PreparedTask PrepareCompute(const program::Op& op, const TaskContext& context) {
  RETURN_IF_ERROR(
      program::CheckTensorTypes(context.program, context.task, op, {program::DType::kF32, program::DType::kBF16}));
  return std::visit([&](const auto& attributes) { return Prepare(attributes, context); }, op);
}

}  // namespace colonnade::cuda
