// What the lists of op cases share: a case, operand by operand and op by op.
#ifndef COLONNADE_TESTS_CPU_OP_CASE_BUILDER_H_
#define COLONNADE_TESTS_CPU_OP_CASE_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "op_cases.h"

namespace colonnade::conformance {

using program::DType;
using program::Shape;
using program::Window;

inline Shape WindowedShape(const Shape& x, int64_t channels, const Window& w) {
  return {x[0], channels, (x[2] + w.pad_top + w.pad_bottom - w.size_h) / w.stride_h + 1,
          (x[3] + w.pad_left + w.pad_right - w.size_w) / w.stride_w + 1};
}

inline Window Square(int64_t size, int64_t stride = 1, int64_t pad = 0) {
  return {size, size, stride, stride, pad, pad, pad, pad};
}

// Adds operands to a case by name and role.
class Case {
 public:
  explicit Case(std::string name) { case_.name = std::move(name); }

  int Input(std::string name, Shape shape) { return Add({std::move(name), std::move(shape), Role::kInput}); }
  int Parameter(std::string name, Shape shape) { return Add({std::move(name), std::move(shape), Role::kParameter}); }
  int Output(std::string name, Shape shape) { return Add({std::move(name), std::move(shape), Role::kOutput}); }
  int Scalars() { return Add({"scalars", {program::StepScalar::kCount}, Role::kInput, Fill::kScalars, DType::kF64}); }
  int Sums(std::string name, int64_t groups, int64_t channels) {
    return Add({std::move(name), {groups, 2, channels}, Role::kOutput, Fill::kNumbers, DType::kF64});
  }
  int Output(std::string name, Shape shape, bool in_master_type) {
    return Add(
        {.name = std::move(name), .shape = std::move(shape), .role = Role::kOutput, .in_master_type = in_master_type});
  }
  int Add(Operand operand) {
    case_.operands.push_back(std::move(operand));
    return static_cast<int>(case_.operands.size()) - 1;
  }
  // An operand shaped as parameter `of`, in its layout.
  int Like(std::string name, int of, Role role) {
    return Add({.name = std::move(name), .shape = case_.operands[of].shape, .role = role, .layout_as = of});
  }

  void Run(program::Op op, std::vector<int> operands) { case_.steps.push_back({std::move(op), std::move(operands)}); }

  OpCase Done(GradientCheck check) && {
    case_.gradient_check = std::move(check);
    return std::move(case_);
  }
  OpCase Done() && { return std::move(case_); }

 private:
  OpCase case_;
};

inline OpCase Inexact(OpCase op_case) {
  op_case.exact = false;
  return op_case;
}

// Without those that are −1.
inline std::vector<int> Present(std::vector<int> operands) {
  std::erase(operands, -1);
  return operands;
}

// The cases of norm_op_cases.cc.
void AddBatchNorms(std::vector<OpCase>& cases);
void AddLayerNorms(std::vector<OpCase>& cases);

}  // namespace colonnade::conformance

#endif  // COLONNADE_TESTS_CPU_OP_CASE_BUILDER_H_
