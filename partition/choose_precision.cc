#include "absl/strings/str_cat.h"
#include "partition/passes.h"

namespace colonnade::partition {

// In bf16 every activation and its gradient is rounded where it is stored; parameters, their gradients and what layers keep
// for themselves stay f32 (program::MasterType), and kernels read each parameter through a copy that is rounded once a step.
absl::Status ChoosePrecision(Lowering& lowering) {
  const program::DType dtype = lowering.options.dtype;
  if (!program::IsFloat(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("element type of a Program: expected f32, bf16 or f64, found ", program::Name(dtype)));
  }
  for (Value& value : lowering.values) {
    if (!value.dtype) value.dtype = dtype;
    if (value.dtype != dtype && value.dtype != program::DType::kI32) {
      return absl::InternalError(absl::StrCat("ChoosePrecision: ", value.name, " is of type ", program::Name(*value.dtype)));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
