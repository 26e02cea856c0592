// A strided tensor as dense doubles and back: what the oracle's loops work on.
#ifndef COLONNADE_CPU_REF_DENSE_H_
#define COLONNADE_CPU_REF_DENSE_H_

#include <cstdint>
#include <vector>

#include "cpu/ref/kernels.h"

namespace colonnade::cpu::ref {

// Returns the elements of `x`, row-major.
std::vector<double> ReadDense(const Tensor& x);

// Writes row-major `values` to `y`, rounded to its element type.
void WriteDense(const std::vector<double>& values, const Tensor& y);

// `value` as WriteDense leaves it in a tensor of a floating type.
double Rounded(double value, program::DType dtype);

// Returns the first element of a tensor of doubles: step scalars.
inline double Scalar(const Tensor& scalars, int index) {
  return static_cast<const double*>(scalars.data)[index * (scalars.strides.empty() ? 1 : scalars.strides[0])];
}

}  // namespace colonnade::cpu::ref

#endif  // COLONNADE_CPU_REF_DENSE_H_
