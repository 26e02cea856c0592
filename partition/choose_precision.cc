#include "absl/strings/str_cat.h"
#include "partition/passes.h"

namespace colonnade::partition {

absl::Status ChoosePrecision(Lowering& lowering) {
  const program::DType dtype = lowering.options.dtype;
  if (dtype != program::DType::kF32 && dtype != program::DType::kF64) {
    return absl::InvalidArgumentError(absl::StrCat("element type of a Program: expected f32 or f64, found ", program::Name(dtype)));
  }
  for (Value& value : lowering.values) {
    if (value.dtype == program::DType::kF32) value.dtype = dtype;
    if (value.dtype != dtype && value.dtype != program::DType::kI32) {
      return absl::InternalError(absl::StrCat("ChoosePrecision: ", value.name, " is of type ", program::Name(value.dtype)));
    }
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
