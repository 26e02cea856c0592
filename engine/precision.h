// What the kernels of a step compute in, in the words of --dtype, of profiles and of tables of measured steps.
//
// A Program knows the type of its elements alone (program::DType): tf32 is how GPUs multiply elements of f32.
#ifndef COLONNADE_ENGINE_PRECISION_H_
#define COLONNADE_ENGINE_PRECISION_H_

#include "absl/strings/string_view.h"
#include "program/types.h"

namespace colonnade::engine {

inline constexpr const char* kPrecisions[] = {"fp32", "tf32", "bf16"};

// Returns the element type of the Programs that compute so. REQUIRES: one of kPrecisions.
inline program::DType DTypeOf(absl::string_view precision) {
  return precision == "bf16" ? program::DType::kBF16 : program::DType::kF32;
}

// Returns what kernels compute in by default in a Program of such elements: "fp32" or "bf16".
inline const char* PrecisionOf(program::DType dtype) { return dtype == program::DType::kBF16 ? "bf16" : "fp32"; }

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_PRECISION_H_
