// The state of a training run as global tensors: parameters and momenta, whatever the plan holds of them where.
#ifndef COLONNADE_ENGINE_STATE_H_
#define COLONNADE_ENGINE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend.h"
#include "program/program.h"

namespace colonnade::engine {

struct NamedTensor {
  std::string name;
  program::Shape shape;
  std::vector<double> values;  // row-major
};

// Initial parameters by their initialisers, momentum zero. An element's value is a function of (seed, parameter name, global
// index) alone, rounded to f32 so that Programs in f32 and f64 start alike.
absl::Status InitializeParameters(const program::Program& program, LoadedProgram& loaded, uint64_t seed);

// Every parameter, in the Program's order. REQUIRES: synchronized.
absl::StatusOr<std::vector<NamedTensor>> ReadParameters(const program::Program& program, const LoadedProgram& loaded);
absl::StatusOr<std::vector<NamedTensor>> ReadMomenta(const program::Program& program, const LoadedProgram& loaded);

// Every copy of every parameter. InvalidArgument naming the tensor where one is missing, unknown or of another shape.
absl::Status WriteParameters(const program::Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors);
absl::Status WriteMomenta(const program::Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors);

// InvalidArgument naming the first value that is infinite, not a number, or beyond what f32 holds.
absl::Status CheckFinite(absl::Span<const NamedTensor> tensors);
// The same of every parameter that is loaded, one after the other. REQUIRES: synchronized.
absl::Status CheckFinite(const program::Program& program, const LoadedProgram& loaded);

// Internal, naming tensor and devices, where two devices hold the same box of a parameter and not the same bits of it.
// REQUIRES: synchronized.
absl::Status CheckCopies(const program::Program& program, const LoadedProgram& loaded);

// FailedPrecondition where a parameter whose initial values are drawn is all zeros, which is what memory begins with:
// neither InitializeParameters nor WriteParameters was called. Looks at the smallest. REQUIRES: synchronized.
absl::Status CheckInitialized(const program::Program& program, const LoadedProgram& loaded);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_STATE_H_
