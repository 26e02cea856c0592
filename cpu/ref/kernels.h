// The oracle: every operation of program/op.h as plain loops, with all arithmetic in double.
//
// Tensors are strided, so any box of a row-major tensor can be an operand. f64, f32 and bf16 tensors are accepted alike.
// Sums run in the order of the loops, which depends on shapes alone. Pure functions; threads may call them on tensors of
// their own.
#ifndef COLONNADE_CPU_REF_KERNELS_H_
#define COLONNADE_CPU_REF_KERNELS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/layouts.h"
#include "program/op.h"
#include "program/types.h"

namespace colonnade::cpu::ref {

struct Tensor {
  void* data = nullptr;
  program::DType dtype = program::DType::kF64;
  program::Shape shape;
  program::Shape strides;                      // in elements
  std::vector<engine::MemberRange> members{};  // of what an update works on, row-major; none: all is one member
};

// Runs `op` on operands in the order that op.h gives, absent ones left out. Load and Store are the backend's: Internal.
// InvalidArgument for a label outside the classes.
absl::Status Run(const program::Op& op, absl::Span<const Tensor> operands);

// One overload for each operation.
absl::Status Run(const program::Copy& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::Normalise& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::Sum& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::ConvForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::ConvBackwardData& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::ConvBackwardWeights& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::FullyConnectedForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::FullyConnectedBackwardData& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::FullyConnectedBackwardWeights& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BiasForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BiasBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::ActivationForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::ActivationBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::MaxPoolForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::MaxPoolBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::AvgPoolForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::AvgPoolBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::LrnForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::LrnBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormSums& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormTrack& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormRecall& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormFold& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormBackwardSums& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormMaskedSums& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::BatchNormBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::LayerNormForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::LayerNormBackwardData& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::LayerNormBackwardWeights& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::Dropout& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::SoftmaxCrossEntropyForward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::CountLabels& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::SoftmaxCrossEntropyBackward& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::CheckFinite& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::SgdUpdate& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::AdamWUpdate& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::AverageUpdate& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::SquaredNorms& op, absl::Span<const Tensor> operands);
absl::Status Run(const program::UpdateGate& op, absl::Span<const Tensor> operands);

}  // namespace colonnade::cpu::ref

#endif  // COLONNADE_CPU_REF_KERNELS_H_
