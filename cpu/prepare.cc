#include "cpu/prepare.h"

#include <type_traits>

#include "cpu/conv.h"
#include "cpu/copy.h"
#include "cpu/elementwise.h"
#include "cpu/gemm.h"
#include "cpu/lrn.h"
#include "cpu/optimizer.h"
#include "cpu/pool.h"
#include "cpu/reference.h"
#include "cpu/softmax.h"

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
        return Prepare(what, context);
      },
      op);
}

}  // namespace colonnade::cpu
