#include "cpu/ops/prepare.h"

#include <algorithm>
#include <type_traits>

#include "base/status_macros.h"
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
#include "cpu/ops/staging.h"
#include "cpu/reference.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

namespace {

template <class Op>
inline constexpr bool kMovesData =
    std::is_same_v<Op, program::Load> || std::is_same_v<Op, program::Store> || std::is_same_v<Op, program::Copy>;

bool HasBf16(const TaskContext& context) {
  return std::any_of(context.operands.begin(), context.operands.end(),
                     [](const Operand& operand) { return operand.view.dtype == program::DType::kBF16; });
}

template <class Op>
PreparedKernel PrepareOwn(const Op& what, const TaskContext& context) {
  if (!HasBf16(context)) return Prepare(what, context);
  const size_t reorders = context.added_reorders->size();
  PreparedKernel kernel = Prepare(what, context);
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  context.added_reorders->erase(context.added_reorders->begin() + reorders, context.added_reorders->end());
  return PrepareInF32(context, [&](const TaskContext& in_f32) { return Prepare(what, in_f32); });
}

}  // namespace

PreparedKernel PrepareCompute(const program::Op& op, const TaskContext& context, bool reference) {
  return std::visit(
      [&](const auto& what) -> PreparedKernel {
        if (reference && !kMovesData<std::decay_t<decltype(what)>>) return PrepareReference(op, context);
        RETURN_IF_ERROR(
            program::CheckTensorTypes(context.program, context.task, op, {program::DType::kF32, program::DType::kBF16}));
        return PrepareOwn(what, context);
      },
      op);
}

}  // namespace colonnade::cpu
