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
  std::string name;                             // "argmax"
  program::DType dtype = program::DType::kF32;  // kF32 stands for the Program's element type
  program::Shape shape;                         // local
};

// A whole buffer and its shape.
struct Operand {
  program::BufferId buffer;
  program::Shape shape;
};

struct ForwardShard {
  std::vector<Operand> inputs, parameters;
  Operand output;              // of SoftmaxCrossEntropy: the metrics
  std::vector<Operand> saved;  // as Saved() lists them; empty in evaluation
  Operand scalars;             // program::StepScalar
  bool train = true;
  program::Shape global_output_shape;
  program::Region output_region;  // where this shard's output lies in the global tensor
};

struct BackwardShard {
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

// Work that reads and writes whole operands once, counted as f32; the caller scales it to the Program's element type.
program::Work MoveWork(const std::vector<Operand>& read, const std::vector<Operand>& written, int64_t flops = 0);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_EMIT_H_
