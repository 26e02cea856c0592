// Data movement inside one device: box copies between any two layouts, Copy, and the host's Load and Store.
//
// Thread rule: the row functions may run on several threads at once on disjoint rows.
#ifndef COLONNADE_CPU_COPY_H_
#define COLONNADE_CPU_COPY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "cpu/load/box.h"
#include "cpu/task_context.h"

namespace colonnade::cpu {

// Copies rows [begin, end) of `plan`: of `from`, which lies as its operand `from_operand`, to `to`, which lies as
// `to_operand`. Elements have `element_bytes` bytes; rows that lie side by side in all operands are one memcpy.
void CopyRowRange(const BoxPlan& plan, int64_t begin, int64_t end, int64_t element_bytes, const char* from, char* to,
                  int from_operand = 0, int to_operand = 1);

// Copies all rows from operand 0 to operand 1, or back.
void CopyRows(const BoxPlan& plan, int threads, int64_t element_bytes, char* operand0, char* operand1,
              bool backwards = false);

// Converts operand 0 to the element type of operand 1, or back.
void ConvertRows(const BoxPlan& plan, int threads, program::DType type0, char* operand0, program::DType type1,
                 char* operand1, bool backwards = false);

PreparedKernel Prepare(const program::Copy& op, const TaskContext& context);
PreparedKernel Prepare(const program::Load& op, const TaskContext& context);
PreparedKernel Prepare(const program::Normalise& op, const TaskContext& context);
PreparedKernel Prepare(const program::Store& op, const TaskContext& context);

// The logical content of `view`, row-major in its element type, and back. Opaque layouts go through oneDNN; may allocate.
absl::Status ReadLogical(const View& view, const char* base, const dnnl::engine& engine, absl::Span<char> bytes);
absl::Status WriteLogical(const View& view, char* base, const dnnl::engine& engine, absl::Span<const char> bytes);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_COPY_H_
