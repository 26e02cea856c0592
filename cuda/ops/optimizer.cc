#include "cuda/ops/optimizer.h"

#include <type_traits>

#include "program/status_macros.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::SgdUpdate& op, const TaskContext& context) {
  ASSIGN_OR_RETURN(Walk walk, WalkOver({context.view(1), context.view(2), context.view(3)}));
  ReadyTask ready;
  const auto with = [&]<int lanes>(std::integral_constant<int, lanes>) {
    return Kernel(SgdElements<lanes>{walk, context.at<double>(0), context.base<float>(1), context.base<float>(2),
                                     context.base<float>(3), static_cast<float>(op.momentum),
                                     static_cast<float>(op.weight_decay), op.form});
  };
  const Base bases[] = {{context.operands[1].base, sizeof(float)},
                        {context.operands[2].base, sizeof(float)},
                        {context.operands[3].base, sizeof(float)}};
  constexpr int kLanes = kLanesOf<float>;
  ready.calls.push_back(LieInVectors(walk, bases, kLanes) ? with(std::integral_constant<int, kLanes>())
                                                          : with(std::integral_constant<int, 1>()));
  return ready;
}

}  // namespace colonnade::cuda
