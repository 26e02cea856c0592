// Lets kernels that know dense operands only work on any box, those that know rows on any layout, and those of f32 on bf16:
// copies operands to dense scratch memory and back.
//
// Whole buffers and slices of the batch are dense already and pass straight through.
#ifndef COLONNADE_CPU_STAGING_H_
#define COLONNADE_CPU_STAGING_H_

#include "absl/functional/function_ref.h"
#include "cpu/ops/element.h"
#include "cpu/task_context.h"

namespace colonnade::cpu {

// Prepares a kernel by `prepare`, of `context` with every operand in its natural layout (view.h), or with every image in
// rows, and puts copies around it where operands are not; those are added to context.added_reorders. Use `weights`, if there
// is one, may have any dense layout.
PreparedKernel PrepareStaged(const TaskContext& context, int weights,
                             absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare);

// Does the same, without weights, and calls prepare(T(), context) with T the element type of operand `element`.
template <class Prepare>
PreparedKernel PrepareOf(const TaskContext& outer, int element, const Prepare& prepare) {
  return PrepareStaged(outer, /*weights=*/-1, [&](const TaskContext& context) {
    return WithElement(context.view(element).dtype, [&](auto zero) -> PreparedKernel { return prepare(zero, context); });
  });
}

// As PrepareStaged, with every operand in a dense layout, each in its own.
PreparedKernel PrepareDense(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare);

// Does the same with every operand row-major, also of those in a layout of oneDNN's choice.
PreparedKernel PrepareInRows(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare);

// Does the same with every operand in bf16 as f32; what the kernel writes is rounded once, behind it.
PreparedKernel PrepareInF32(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_STAGING_H_
