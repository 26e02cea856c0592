#include "cpu/reference.h"

#include <utility>
#include <vector>

#include "cpu/ref/kernels.h"

namespace colonnade::cpu {

PreparedKernel PrepareReference(const program::Op& op, const TaskContext& context) {
  std::vector<View> views;
  std::vector<ref::Tensor> tensors;
  for (const Operand& operand : context.operands) {
    const View& view = views.emplace_back(operand.view);
    tensors.push_back({nullptr, view.dtype, view.shape, view.strides, operand.members});
  }
  return MakeKernel([op, views = std::move(views), tensors = std::move(tensors)](const RunArguments& run) mutable {
    for (size_t use = 0; use < views.size(); ++use) {
      tensors[use].data = run.data[use] + views[use].offset * program::SizeInBytes(views[use].dtype);
    }
    return ref::Run(op, tensors);
  });
}

}  // namespace colonnade::cpu
