// What a layer emits for one shard: operations on operands that the caller has already given buffers.
#ifndef COLONNADE_LAYERS_EMIT_H_
#define COLONNADE_LAYERS_EMIT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "program/op.h"
#include "program/program.h"
#include "program/task.h"

namespace colonnade::layers {

struct ParameterSpec {
  std::string name;  // "weight", "bias"
  program::Shape shape;
  program::Initializer initializer;
};

// A buffer, one device's part of a tensor; or some rows of it, which are samples.
struct Operand {
  program::BufferId buffer;
  program::Shape shape;
  program::Shape global_shape{};  // of the tensor
  program::Shape offset{};        // of this part in it, if that is one box
  int64_t first_row = 0;          // of the buffer
};

// Returns the flop of one task, cut to 2^46: windows and lists of summands may be far larger than images, and those of a
// hundred thousand tasks are added. (What multiplies weights is bounded by partition::LargestBatch.)
inline int64_t CountedFlops(double flops) { return static_cast<int64_t>(std::min(flops, 0x1p46)); }

inline int64_t Elements(const Operand& x) { return program::ElementCount(x.shape); }

struct EmittedOp {
  program::Op op;
  absl::InlinedVector<program::BufferUse, 4> uses;  // in the operand order that program/op_table.h gives
  int64_t flops = 0;
};

// Return a use of all of an operand.
program::BufferUse Read(const Operand& x);
program::BufferUse Write(const Operand& x);
program::BufferUse Accumulate(const Operand& x);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_EMIT_H_
