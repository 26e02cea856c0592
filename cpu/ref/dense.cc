#include "cpu/ref/dense.h"

#include "program/formulas/bfloat16.h"
#include "program/visit_dtype.h"

namespace colonnade::cpu::ref {
namespace {

// Calls f(strided offset, row-major index) for the start of each innermost run of `x`.
template <class F>
void ForEachRow(const Tensor& x, F f) {
  const int rank = static_cast<int>(x.shape.size());
  const int64_t count = program::ElementCount(x.shape);
  const int64_t row = rank == 0 ? 1 : x.shape[rank - 1];
  if (count == 0) return;
  program::Shape index(rank, 0);
  for (int64_t at = 0; at < count; at += row) {
    int64_t offset = 0;
    for (int d = 0; d + 1 < rank; ++d) offset += index[d] * x.strides[d];
    f(offset, at);
    for (int d = rank - 2; d >= 0; --d) {
      if (++index[d] < x.shape[d]) break;
      index[d] = 0;
    }
  }
}

template <class T>
void Read(const Tensor& x, std::vector<double>& values) {
  const int64_t row = x.shape.empty() ? 1 : x.shape.back(), step = x.shape.empty() ? 1 : x.strides.back();
  ForEachRow(x, [&](int64_t offset, int64_t at) {
    const T* from = static_cast<const T*>(x.data) + offset;
    for (int64_t i = 0; i < row; ++i) values[at + i] = static_cast<double>(from[i * step]);
  });
}

template <class T>
void Write(const std::vector<double>& values, const Tensor& y) {
  const int64_t row = y.shape.empty() ? 1 : y.shape.back(), step = y.shape.empty() ? 1 : y.strides.back();
  ForEachRow(y, [&](int64_t offset, int64_t at) {
    T* to = static_cast<T*>(y.data) + offset;
    for (int64_t i = 0; i < row; ++i) to[i * step] = static_cast<T>(values[at + i]);
  });
}

}  // namespace

std::vector<double> ReadDense(const Tensor& x) {
  std::vector<double> values(program::ElementCount(x.shape));
  program::VisitDType(x.dtype, [&]<class T>(T) { Read<T>(x, values); });
  return values;
}

double Rounded(double value, program::DType dtype) {
  if (dtype == program::DType::kF32) return static_cast<float>(value);
  if (dtype == program::DType::kBF16) return static_cast<float>(static_cast<program::BFloat16>(static_cast<float>(value)));
  return value;
}

void WriteDense(const std::vector<double>& values, const Tensor& y) {
  program::VisitDType(y.dtype, [&]<class T>(T) { Write<T>(values, y); });
}

}  // namespace colonnade::cpu::ref
