// Runs an OpCase: on the oracle cpu/ref in double, and on a backend, whose physical layouts depend on where operands lie.
//
// Thread rule: that of engine::Backend.
#ifndef COLONNADE_TESTS_CPU_OP_CASE_RUN_H_
#define COLONNADE_TESTS_CPU_OP_CASE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "op_cases.h"

namespace colonnade::conformance {

// The elements of each operand in row-major order; those of saved operands mean nothing.
using Values = std::vector<std::vector<double>>;

enum class Data {
  kIntegers,  // in [−3, 3]
  kNormal,    // normal numbers, rounded to f32, none near 0
  kRounded,   // the same, rounded to bf16
};
Values MakeValues(const OpCase& op_case, Data data, uint64_t seed);

// Returns the oracle's values after the first `steps` steps of the case, with all floating operands in f64.
absl::StatusOr<Values> RunOracle(const OpCase& op_case, const Values& values, size_t steps = ~size_t{0});

// Where inputs and outputs lie. Parameters are persistent in any case: alone, or as members of buckets.
enum class Home {
  kPersistent,  // as parameters do
  kStep,        // in buffers of the step, as activations do
  kBox,         // in boxes of such buffers, as parts of concatenations and slices do
};
const char* Name(Home home);

// One case loaded on device 0 of a backend, which must outlive it.
class LoadedCase {
 public:
  // `dtype` is that of floating operands. Errors: the Program's verification, or Backend::Load's.
  static absl::StatusOr<std::unique_ptr<LoadedCase>> Load(engine::Backend& backend, const OpCase& op_case,
                                                          program::DType dtype, Home home);

  // Writes `values`, runs one more step, and reads all operands but saved ones.
  absl::StatusOr<Values> Run(const Values& values);

 private:
  LoadedCase(const OpCase& op_case, program::DType dtype, Home home);

  OpCase case_;
  program::Program program_;
  std::vector<program::BufferId> host_;  // by operand: persistent, what the host writes or reads
  engine::HostSlot slots_[2];
  std::unique_ptr<engine::LoadedProgram> loaded_;
  int64_t step_ = 0;
};

// Returns how far, by RelativeDistance, the results of a case in bf16 may be off: a result is rounded to 2⁻⁹, and in some
// cases was rounded while it was made. A convolution on GPUs is rounded before its bias is added, and a normalisation before
// its addend, so that some of their ReLUs fall on the other side. Nothing where an update writes what a layer reads: in bf16
// layers read rounded copies.
std::optional<double> Bf16Tolerance(const OpCase& op_case);

// Returns ‖a − b‖ / ‖b‖, or ‖a‖ where b is 0.
double RelativeDistance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace colonnade::conformance

#endif  // COLONNADE_TESTS_CPU_OP_CASE_RUN_H_
