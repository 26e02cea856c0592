// What is true of an op whatever runs it: its name, its operands, how it is timed, and how it binds the layouts of its
// operands. op_table.h says it, in one row for each op; here are the words of that table and the functions that read it at
// run time.
#ifndef COLONNADE_PROGRAM_OP_TRAITS_H_
#define COLONNADE_PROGRAM_OP_TRAITS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "program/op.h"
#include "program/program.h"
#include "program/task.h"

namespace colonnade::program {

// What an operand is to its op. The gradient of a layer's tensor has the role of the tensor: dw is a kWeight.
enum class Role {
  kData,  // of an op that looks at bytes alone: of any type
  kInput,
  kOutput,
  kWeight,
  kBias,
  kMomentum,
  kSaved,    // what forward leaves for backward
  kArgmax,   // u8
  kPixels,   // u8
  kLabels,   // i32
  kScalars,  // f64 [StepScalar::kCount]
  kMetrics,  // f64 [Metric::kCount]
  kCount,    // f64 [1]
  kFlag,     // i32 [1]
  kSums,     // f64 [groups,2,C]
  kControl,  // f64: norms, a gate, factors of rates
};
// Returns the one type of an operand that is no tensor of a layer; absent where it may have any.
constexpr std::optional<DType> TypeOf(Role role) {
  switch (role) {
    case Role::kArgmax:
    case Role::kPixels:
      return DType::kU8;
    case Role::kLabels:
    case Role::kFlag:
      return DType::kI32;
    case Role::kScalars:
    case Role::kMetrics:
    case Role::kCount:
    case Role::kSums:
    case Role::kControl:
      return DType::kF64;
    case Role::kData:
    case Role::kInput:
    case Role::kOutput:
    case Role::kWeight:
    case Role::kBias:
    case Role::kMomentum:
    case Role::kSaved:
      return std::nullopt;
  }
  return std::nullopt;
}
// Whether an operand of this role holds numbers of a layer, in floating point.
constexpr bool IsTensor(Role role) { return role != Role::kData && !TypeOf(role).has_value(); }
// The type of a tensor of layers: the op's own, its MasterType or, for what may be a summand of a sum over devices, either.
enum class Width { kElement, kMaster, kSummand };
enum class Occurs {
  kOnce,
  kIfBias,      // if attribute `bias` is set
  kAllOrNone,   // all such operands of an op or none: what training needs, what is fused with the op
  kOnceOrMore,  // several such operands in a row repeat together
};
struct OperandTrait {
  const char* name;  // "dy"
  Role role;
  Access access;
  Width width = Width::kElement;
  Occurs occurs = Occurs::kOnce;
};

// How an op is timed: which extents its rate depends on.
enum class CostClass {
  kConvolution,    // of weights and images; its rate is in flop/s
  kMatrixProduct,  // of weights and matrices; its rate is in flop/s
  kImages,         // of images; its rate is in bytes/s, as are those below
  kUpdate,         // streams bytes; the fastest of these ops is taken for the speed of memory
  kBytes,
};
constexpr bool IsTimedByFlops(CostClass cost) {
  return cost == CostClass::kConvolution || cost == CostClass::kMatrixProduct;
}

// How an op binds the layouts of its operands.
enum class LayoutRule {
  kFree,           // takes them as they are
  kAlike,          // its tensors of one shape share a layout, and so do all its images
  kConvolution,    // decides that of its weights
  kMatrixProduct,  // likewise
  kArgmax,         // decides the bytes of argmax; its images lie alike
};

// Returns one op of each name, in the order of the variant.
std::vector<Op> AllOps();
CostClass CostClassOf(const Op& op);
LayoutRule LayoutRuleOf(const Op& op);
// Returns the class of the op of that name; absent where there is none.
std::optional<CostClass> CostClassOf(absl::string_view name);

using OperandTraits = absl::InlinedVector<const OperandTrait*, 4>;
// Returns the trait of each of `count` operands of `op`; nothing if it does not take so many.
std::optional<OperandTraits> TraitsOfOperands(const Op& op, size_t count);
// Whether the operands that `op` may be without (Occurs::kAllOrNone) are among its `count` operands.
bool HasOptionalOperands(const Op& op, size_t count);
// Returns Ok if every tensor of `task`, which does `op`, is of one of `types`; else InvalidArgument that names operand and
// types.
absl::Status CheckTensorTypes(const Program& program, const Task& task, const Op& op, absl::Span<const DType> types);
// Returns "x read, w read, [b read], y write", for messages.
std::string DescribeOperands(const Op& op);
// Returns the index of the first operand that is a `role`, or −1. REQUIRES: `op` takes `count` operands.
int OperandOf(const Op& op, size_t count, Role role);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_OP_TRAITS_H_
