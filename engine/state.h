// The state of a training run as global tensors: parameters and what the optimiser keeps, wherever the plan holds them.
#ifndef COLONNADE_ENGINE_STATE_H_
#define COLONNADE_ENGINE_STATE_H_

#include <cstdint>
#include <set>
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

// A tensor as its bytes: row-major, in its own element type. It does not own the bytes.
struct TensorView {
  std::string name;
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  absl::Span<const char> bytes;
};

NamedTensor AsDoubles(const TensorView& tensor);

using program::kStateKinds;
using program::StateKind;

// A copy, in host memory, of everything of a training run that outlives a step.
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
  std::vector<TensorView> views(StateKind kind) const;  // the copy must outlive them
};

// Sets parameters, and averages, to what their initialisers give, and moments to zero. An element's value is a function of
// (seed, parameter name, global index) alone, rounded to f32 so that Programs in f32 and f64 start alike.
absl::Status InitializeParameters(LoadedProgram& loaded, uint64_t seed);

// Sets averages to the parameters as they are now. Call it after a Program that keeps averages is loaded on devices that
// already hold trained parameters; InitializeParameters, WriteTensors and WriteState of values do the same. Internal where
// copies of parameters differ, as CopyState.
absl::Status StartAverages(LoadedProgram& loaded);

// State is read and written as doubles, whole tensors at a time, by what looks at numbers (initialisation, verify, tests),
// or as bytes in its own element type, by what keeps it (checkpoints, files of weights).

// Reads, as doubles, one kind of state of every parameter that has it, in the Program's order. REQUIRES: synchronized.
absl::StatusOr<std::vector<NamedTensor>> ReadTensors(const LoadedProgram& loaded, StateKind kind = StateKind::kValue);

// Writes every copy of one kind of state of every parameter that has it. Averages begin anew with the parameters that are
// written; those of a checkpoint are written after them. InvalidArgument that names the tensor where one is
// missing, unknown, there twice or of another shape.
absl::Status WriteTensors(LoadedProgram& loaded, absl::Span<const NamedTensor> tensors, StateKind kind = StateKind::kValue);

// Copies the bytes of the state of `kinds` to `copy`, whose memory is used again where it fits. Beside the copy it takes no
// more memory than the largest box that a device holds. Internal, with tensor and devices, where two devices hold the same
// box but not the same bits of it. REQUIRES: synchronized.
absl::Status CopyState(const LoadedProgram& loaded, StateCopy& copy, absl::Span<const StateKind> kinds = kStateKinds);
// Do the same, one parameter after the other: ReserveState makes room in `copy` for all of `kinds`; each CopyParameter then
// copies all state that `copy` has of one of Program::parameters.
void ReserveState(const program::Program& program, StateCopy& copy, absl::Span<const StateKind> kinds = kStateKinds);
absl::Status CopyParameter(const LoadedProgram& loaded, size_t parameter, StateCopy& copy);

// Writes every copy of all state of one kind, converted where `tensors` have another element type (f32, f64 or
// bf16). Averages and errors as WriteTensors'.
//
// Layers of `new_layers` keep what they hold, whatever `tensors` has for their parameters: so a network begins with the
// weights of one for other classes, where `new_layers` are the heads (layers::LayerGraph::Heads) and were initialised
// before. InvalidArgument where one of them has no such state.
absl::Status WriteState(LoadedProgram& loaded, StateKind kind, absl::Span<const TensorView> tensors,
                        const std::set<std::string>& new_layers = {});
// Returns the error by which WriteState would refuse `tensors`. Nothing is written.
absl::Status CheckState(const program::Program& program, StateKind kind, absl::Span<const TensorView> tensors);

// Returns the bytes that a StateCopy of all state of `program` has.
int64_t StateBytes(const program::Program& program);

// Return InvalidArgument that names the first value that is infinite, not a number, or beyond what f32 holds.
absl::Status CheckFinite(absl::Span<const TensorView> tensors);
absl::Status CheckFiniteState(const StateCopy& copy);
// Does the same for every parameter that is loaded, one after the other; Internal where copies differ, as CopyState.
// REQUIRES: synchronized.
absl::Status CheckFiniteParameters(const LoadedProgram& loaded);
// Returns OutOfRange: what one of these found after `step`, and what may help.
absl::Status NotFiniteAfter(int64_t step, const absl::Status& found);

// Returns Internal, with tensor and devices, where two devices hold the same box of a parameter but not the same bits of it.
// REQUIRES: synchronized.
absl::Status CheckCopies(const LoadedProgram& loaded);

// Returns FailedPrecondition where a parameter whose initial values are drawn, or its average, is all zeros, as memory
// begins: its values were never written, or its averages never started. Looks only at the smallest such parameter. REQUIRES:
// synchronized.
absl::Status CheckInitialized(const LoadedProgram& loaded);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_STATE_H_
