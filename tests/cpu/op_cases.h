// What every backend must compute: one list of cases for cpu/ref, cpu and cuda.
//
// A case is a short sequence of ops on named operands, forward and backward together, because some operands between them
// (argmax, the sums of a normalisation, the layout of weights) are the backend's own business. It says nothing of expected
// values: those are the oracle's, cpu/ref, whose gradients are in turn compared with finite differences.
// Which memory operands lie in and how cases are run is op_case_run.h's. Plain values.
#ifndef COLONNADE_TESTS_CPU_OP_CASES_H_
#define COLONNADE_TESTS_CPU_OP_CASES_H_

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "program/op.h"
#include "program/types.h"

namespace colonnade::conformance {

enum class Role {
  kInput,      // written by the host before the step
  kParameter,  // likewise, persistent; its physical layout is the backend's choice
  kOutput,     // read by the host after the step
  kSaved,      // from one op to another; its content is the backend's own
};

enum class Fill {
  kNumbers,      // small integers for exact data, else normal numbers rounded to f32
  kFarFromZero,  // 1000 more than kNumbers
  kPositive,     // 1 more than the magnitude of kNumbers
  kZeros,
  kBytes,    // 0 to 255
  kLabels,   // classes, and −1 for every fifth sample; `classes` of them
  kScalars,  // the step scalars
};

struct Operand {
  std::string name;
  program::Shape shape;
  Role role = Role::kInput;
  Fill fill = Fill::kNumbers;
  std::optional<program::DType> dtype = {};  // absent: the floating type of the run
  int layout_as = -1;                        // a parameter whose physical layout this one shares
  int64_t classes = 0;
  bool in_master_type = false;  // f32 where the run is in bf16: a summand of a sum over devices
};

struct Step {
  program::Op op;
  std::vector<int> operands;  // in the order of op.h
};

// What finite differences are taken of: Σ y·dy, or, without dy, the loss sum in metrics y over the number of labels.
// Each pair names an operand and the one that holds the derivative by it.
struct GradientCheck {
  int y = 0;
  std::optional<int> dy;
  size_t forward_steps = 1;  // the first steps, after which y is there
  std::vector<std::pair<int, int>> gradients;
};

struct OpCase {
  std::string name;  // letters, digits and _
  std::vector<Operand> operands;
  std::vector<Step> steps;
  bool exact = true;        // on small integers every correct kernel gives equal bits
  double tolerance = 1e-5;  // of the relative norm of f32 results on normal numbers
  std::optional<GradientCheck> gradient_check;
};

std::vector<OpCase> AllOpCases();

inline void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

}  // namespace colonnade::conformance

#endif  // COLONNADE_TESTS_CPU_OP_CASES_H_
