// The words in which op_table.h writes its rows.
#ifndef COLONNADE_PROGRAM_OP_ROW_H_
#define COLONNADE_PROGRAM_OP_ROW_H_

#include <tuple>

#include "program/op_traits.h"

namespace colonnade::program {

template <class Op, class T>
struct Attribute {
  const char* name;
  T Op::*member;
};
template <class Op, class T>
Attribute(const char*, T Op::*) -> Attribute<Op, T>;

// A row has these members: kName or, where one struct has several names, NameOf(op) and Each(), one op of each name;
// kOperands in the order of a task's uses; kAttributes in that of the text form; kCost; kLayout.
template <class Op>
struct OpTraits;

// Defaults that several rows share. A row inherits from one of these and may redefine its members.
struct Streams {
  static constexpr std::tuple<> kAttributes{};
  static constexpr CostClass kCost = CostClass::kBytes;
  static constexpr LayoutRule kLayout = LayoutRule::kFree;
};
struct StreamsAlike : Streams {
  static constexpr LayoutRule kLayout = LayoutRule::kAlike;
};
struct Convolves {
  static constexpr CostClass kCost = CostClass::kConvolution;
  static constexpr LayoutRule kLayout = LayoutRule::kConvolution;
};
struct Multiplies {
  static constexpr std::tuple<> kAttributes{};
  static constexpr CostClass kCost = CostClass::kMatrixProduct;
  static constexpr LayoutRule kLayout = LayoutRule::kMatrixProduct;
};
struct Updates {
  static constexpr CostClass kCost = CostClass::kUpdate;
  static constexpr LayoutRule kLayout = LayoutRule::kAlike;
};
struct WorksOnImages {
  static constexpr CostClass kCost = CostClass::kImages;
  static constexpr LayoutRule kLayout = LayoutRule::kAlike;
};

inline constexpr Access kReads = Access::kRead, kWrites = Access::kWrite, kAccumulates = Access::kAccumulate;
// Operands that many ops have.
inline constexpr OperandTrait kX{"x", Role::kInput, kReads}, kY{"y", Role::kOutput, kWrites},
    kDy{"dy", Role::kOutput, kReads}, kDx{"dx", Role::kInput, kWrites}, kScalars{"scalars", Role::kScalars, kReads},
    kSampleLabels{"labels", Role::kLabels, kReads}, kSums{"sums", Role::kSums, kReads},
    kGate{"gate", Role::kControl, kReads};

// Returns `operand`, marked as one that may be absent.
constexpr OperandTrait Maybe(OperandTrait operand) {
  operand.occurs = Occurs::kAllOrNone;
  return operand;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_OP_ROW_H_
