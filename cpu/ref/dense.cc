#include "cpu/ref/dense.h"

#include "program/bfloat16.h"

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
  switch (x.dtype) {
    case program::DType::kF32:
      Read<float>(x, values);
      break;
    case program::DType::kF64:
      Read<double>(x, values);
      break;
    case program::DType::kI32:
      Read<int32_t>(x, values);
      break;
    case program::DType::kU8:
      Read<uint8_t>(x, values);
      break;
    case program::DType::kBF16:
      Read<program::BFloat16>(x, values);
      break;
  }
  return values;
}

double Rounded(double value, program::DType dtype) {
  if (dtype == program::DType::kF32) return static_cast<float>(value);
  if (dtype == program::DType::kBF16) return static_cast<float>(static_cast<program::BFloat16>(static_cast<float>(value)));
  return value;
}

void WriteDense(const std::vector<double>& values, const Tensor& y) {
  switch (y.dtype) {
    case program::DType::kF32:
      Write<float>(values, y);
      break;
    case program::DType::kF64:
      Write<double>(values, y);
      break;
    case program::DType::kI32:
      Write<int32_t>(values, y);
      break;
    case program::DType::kU8:
      Write<uint8_t>(values, y);
      break;
    case program::DType::kBF16:
      Write<program::BFloat16>(values, y);
      break;
  }
}

}  // namespace colonnade::cpu::ref
