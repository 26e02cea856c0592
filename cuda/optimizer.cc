#include "cuda/optimizer.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::SgdUpdate& op, const TaskContext& context) {
  absl::StatusOr<Walk> walk = WalkOver({context.view(1), context.view(2), context.view(3)});
  if (!walk.ok()) return walk.status();
  ReadyTask ready;
  ready.calls.push_back(
      Kernel(SgdElements{*walk, context.at<double>(0), context.base<float>(1), context.base<float>(2),
                         context.base<float>(3), static_cast<float>(op.momentum), static_cast<float>(op.weight_decay)}));
  return ready;
}

}  // namespace colonnade::cuda
