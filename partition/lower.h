// Lowering: a network under a plan becomes one Program. The passes, in order, stand in lower.cc.
#ifndef COLONNADE_PARTITION_LOWER_H_
#define COLONNADE_PARTITION_LOWER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::partition {

struct LowerOptions {
  program::Mode mode = program::Mode::kTrain;
  int64_t global_batch = 64;
  program::DType dtype = program::DType::kF32;  // kF64: the whole Program in double; kBF16: with parameters in f32
  double momentum = 0.9;
  double weight_decay = 0;
  program::SgdForm sgd_form = program::SgdForm::kKrizhevsky;
  bool expose_gradients = false;  // every reduced gradient is an output of the Program
};

// The Program of one step, scheduled and verified. Train and eval Programs of one graph and plan share their persistent
// buffers by name. Errors: those of ValidatePlan.
absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWER_H_
