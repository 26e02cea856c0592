// What a layer emits for one shard: operations on operands that the caller has already given buffers.
#ifndef COLONNADE_LAYERS_EMIT_H_
#define COLONNADE_LAYERS_EMIT_H_

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

// A tensor that forward leaves for backward alone.
struct SavedSpec {
  std::string name;                     // "argmax"
  std::optional<program::DType> dtype;  // absent: the Program's master type (program::MasterType), f32 or f64
  program::Shape shape;                 // local
};

// A whole buffer and its shape.
struct Operand {
  program::BufferId buffer;
  program::Shape shape;
};

// ForwardOperands and BackwardOperands (shard_operands.h) fill these.
struct ForwardShard {
  std::vector<Operand> inputs;  // of a loss: the labels behind them
  std::vector<Operand> parameters;
  Operand output;              // of a loss: the metrics
  std::vector<Operand> saved;  // as Saved() lists them; empty in evaluation, but for a loss
  Operand scalars;             // program::StepScalar
  bool train = true;
  program::Shape global_output_shape;
  program::Region output_region;  // where this shard's output lies in the global tensor
};

struct BackwardShard {
  // As forward had them; those that EmitBackward does not read have a shape and no buffer.
  std::vector<Operand> inputs, parameters;
  Operand output;
  std::vector<Operand> saved;
  Operand scalars;
  std::optional<Operand> d_output;               // absent for the loss
  std::vector<std::optional<Operand>> d_inputs;  // absent where nobody needs it
  std::vector<Operand> d_parameters;
  program::Shape global_output_shape;
  program::Region output_region;
};

struct EmittedOp {
  program::Op op;
  absl::InlinedVector<program::BufferUse, 4> uses;  // in the operand order that op.h gives
  program::Work work;
};

// Uses of a whole operand.
program::BufferUse Read(const Operand& x);
program::BufferUse Write(const Operand& x);

// Work that reads and writes whole operands once, counted as f32. Small operands (biases, scalars, metrics, labels) are left
// out by those who call it.
program::Work MoveWork(const std::vector<Operand>& read, const std::vector<Operand>& written, int64_t flops = 0);

// The same work on elements of `dtype`.
program::Work InType(program::Work f32_work, program::DType dtype);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_EMIT_H_
