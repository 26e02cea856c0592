// One list of operations with shapes, for every backend: what is compared with the oracle, and how closely.
#ifndef COLONNADE_TESTS_CPU_OP_CASES_H_
#define COLONNADE_TESTS_CPU_OP_CASES_H_

#include <string>
#include <vector>

#include "program/op.h"
#include "program/types.h"

namespace colonnade::cpu {

struct OpOperand {
  enum class Role { kInput, kSaved, kOutput, kAccumulated, kLabels, kScalars };
  program::Shape shape;
  Role role = Role::kInput;
  program::DType dtype = program::DType::kF32;
  int weight = -1;  // operands of one number share a weight's layout: a weight, its gradient, its momentum
};

struct OpCase {
  std::string name;
  program::Op op;
  std::vector<OpOperand> operands;
  bool exact = false;        // equal bits on small integers
  double tolerance = 1e-5;   // relative norm on random data, f32: the sums' rounding, growing with the root of their length
};

std::vector<OpCase> OpCases();

}  // namespace colonnade::cpu

#endif  // COLONNADE_TESTS_CPU_OP_CASES_H_
