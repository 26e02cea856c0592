#include "cpu/ops/optimizer.h"

#include "cpu/load/box.h"
#include "cpu/ops/elementwise.h"
#include "program/math.h"

namespace colonnade::cpu {

PreparedKernel Prepare(const program::SgdUpdate& op, const TaskContext& context) {
  const auto views = ElementwiseViews(context, 1, 3);
  if (!views.ok()) return views.status();
  return KernelOf([plan = BoxPlan(*views), op, scalars_offset = context.view(0).offset,
                   threads = context.threads](const RunArguments& run) {
    const float lr = static_cast<float>(run.as<const double>(0)[scalars_offset + program::kLearningRate]);
    const float momentum = static_cast<float>(op.momentum), decay = static_cast<float>(op.weight_decay);
    program::WithForm(op.form, [&](auto form) {
      plan.ForAllRows(threads, [&](const Row& row) {
        const float* g = run.as<const float>(1) + row.offset[0];
        float* v = run.as<float>(2) + row.offset[1];
        float* w = run.as<float>(3) + row.offset[2];
        if (row.contiguous) {
          for (int64_t i = 0; i < row.size; ++i) program::SgdStep(form(), lr, momentum, decay, g[i], v[i], w[i]);
        } else {
          for (int64_t i = 0; i < row.size; ++i) {
            program::SgdStep(form(), lr, momentum, decay, g[i * row.stride[0]], v[i * row.stride[1]], w[i * row.stride[2]]);
          }
        }
      });
    });
    return absl::OkStatus();
  });
}

}  // namespace colonnade::cpu
