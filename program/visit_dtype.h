// Calls what is written for any C++ type with the one that an element type has.
#ifndef COLONNADE_PROGRAM_VISIT_DTYPE_H_
#define COLONNADE_PROGRAM_VISIT_DTYPE_H_

#include <cstdint>

#include "program/formulas/bfloat16.h"
#include "program/types.h"

namespace colonnade::program {

// Returns visit(T{}), where T is the C++ type of `dtype`. REQUIRES: it has the same type for each T.
template <class Visit>
auto VisitDType(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kF64:
      return visit(double{});
    case DType::kI32:
      return visit(int32_t{});
    case DType::kU8:
      return visit(uint8_t{});
    case DType::kBF16:
      return visit(BFloat16{});
    case DType::kF32:
      break;
  }
  return visit(float{});
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_VISIT_DTYPE_H_
