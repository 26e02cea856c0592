#include "cpu/ops/prepare.h"

#include <type_traits>

#include "cpu/ops/batch_norm.h"
#include "cpu/ops/conv.h"
#include "cpu/ops/copy.h"
#include "cpu/ops/elementwise.h"
#include "cpu/ops/gemm.h"
#include "cpu/ops/layer_norm.h"
#include "cpu/ops/lrn.h"
#include "cpu/ops/optimizer.h"
#include "cpu/ops/pool.h"
#include "cpu/ops/softmax.h"
#include "cpu/reference.h"
#include "program/op_traits.h"
#include "program/status_macros.h"

namespace colonnade::cpu {

namespace {

template <class Op>
inline constexpr bool kMovesData =
    std::is_same_v<Op, program::Load> || std::is_same_v<Op, program::Store> || std::is_same_v<Op, program::Copy>;

}  // namespace

PreparedKernel PrepareCompute(const program::Op& op, const TaskContext& context, bool reference) {
  return std::visit(
      [&](const auto& what) -> PreparedKernel {
        if (reference && !kMovesData<std::decay_t<decltype(what)>>) return PrepareReference(op, context);
        RETURN_IF_ERROR(program::CheckTensorTypes(context.program, context.task, op, {program::DType::kF32}));
        return Prepare(what, context);
      },
      op);
}

}  // namespace colonnade::cpu
