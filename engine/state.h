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

// A tensor as its bytes: row-major, in its own element type. The bytes are someone else's.
struct TensorView {
  std::string name;
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  absl::Span<const char> bytes;
};

NamedTensor AsDoubles(const TensorView& tensor);

using program::kStateKinds;
using program::StateKind;

// Everything of a training run that outlives a step, copied out of the devices.
struct StateCopy {
  struct Tensor {
    std::string name;
    size_t parameter = 0;  // by Program::parameters
    StateKind kind = StateKind::kValue;
    program::DType dtype = program::DType::kF32;
    program::Shape shape;
    std::vector<char> bytes;
  };
  std::vector<Tensor> tensors;  // by kind, then in the Program's order

  int64_t bytes() const;
  std::vector<TensorView> views(StateKind kind) const;  // of it; it must outlive them
};

// Initial parameters by their initialisers, which averages begin with, too; moments zero. An element's value is a function
// of (seed, parameter name, global index) alone, rounded to f32 so that Programs in f32 and f64 start alike.
absl::Status InitializeParameters(const program::Program& program, LoadedProgram& loaded, uint64_t seed);

// Averages begin with what the parameters are now.
absl::Status StartAverages(const program::Program& program, LoadedProgram& loaded);

// Every parameter, in the Program's order. REQUIRES: synchronized.
absl::StatusOr<std::vector<NamedTensor>> ReadParameters(const program::Program& program, const LoadedProgram& loaded);
absl::StatusOr<std::vector<NamedTensor>> ReadMomenta(const program::Program& program, const LoadedProgram& loaded);

absl::StatusOr<std::vector<NamedTensor>> ReadTensors(const program::Program& program, const LoadedProgram& loaded,
                                                     StateKind kind);

// Every copy of every parameter. InvalidArgument naming the tensor where one is missing, unknown or of another shape.
absl::Status WriteParameters(const program::Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors);
absl::Status WriteMomenta(const program::Program& program, LoadedProgram& loaded, absl::Span<const NamedTensor> tensors);
absl::Status WriteTensors(const program::Program& program, LoadedProgram& loaded, StateKind kind,
                          absl::Span<const NamedTensor> tensors);

// Copies the state of `kinds` to `copy`, whose memory is used again where it fits: beside the copy no more is taken than the
// largest box that a device holds. REQUIRES: synchronized.
absl::Status ReadState(const program::Program& program, const LoadedProgram& loaded, StateCopy& copy,
                       absl::Span<const StateKind> kinds = kStateKinds);
// The same, one parameter after the other: room for all, then all that `copy` has of one of Program::parameters.
void MakeRoom(const program::Program& program, StateCopy& copy, absl::Span<const StateKind> kinds = kStateKinds);
absl::Status ReadParameter(const program::Program& program, const LoadedProgram& loaded, size_t parameter, StateCopy& copy);

// Writes every copy of all state of one kind, converted where `tensors` have another element type. Errors as
// WriteParameters.
absl::Status WriteState(const program::Program& program, LoadedProgram& loaded, StateKind kind,
                        absl::Span<const TensorView> tensors);

// Bytes that StateCopy has for `program`.
int64_t StateBytes(const program::Program& program);

// InvalidArgument naming the first value that is infinite, not a number, or beyond what f32 holds.
absl::Status CheckFinite(absl::Span<const TensorView> tensors);
absl::Status CheckFiniteState(const StateCopy& copy);
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
