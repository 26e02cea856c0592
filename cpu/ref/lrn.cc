#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/ref/dense.h"

namespace colonnade::cpu::ref {
namespace {

// Calls f(n, c, first, end) where [first, end) are the channels of c's window, which stays in c's block of channels.
template <class F>
void ForEachWindow(const program::Shape& shape, int64_t size, int64_t groups, F f) {
  const int64_t block = shape[1] / groups;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      const int64_t begin = c / block * block;
      f(n, c, std::max(begin, c - size / 2), std::min(begin + block, c + size / 2 + 1));
    }
  }
}

// s = k + alpha/size · Σ x², the sum over each window.
template <class Op>
std::vector<double> ScaleOf(const Op& op, const program::Shape& shape, const std::vector<double>& x) {
  const int64_t plane = shape[2] * shape[3];
  std::vector<double> scale(x.size());
  ForEachWindow(shape, op.size, op.groups, [&](int64_t n, int64_t c, int64_t first, int64_t end) {
    for (int64_t i = 0; i < plane; ++i) {
      double squares = 0;
      for (int64_t j = first; j < end; ++j) {
        const double v = x[(n * shape[1] + j) * plane + i];
        squares += v * v;
      }
      scale[(n * shape[1] + c) * plane + i] = op.k + op.alpha / static_cast<double>(op.size) * squares;
    }
  });
  return scale;
}

}  // namespace

absl::Status Run(const program::LrnForward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> x = ReadDense(operands[0]), scale = ScaleOf(op, operands[0].shape, x);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(scale[i], -op.beta);
  WriteDense(y, operands[1]);
  return absl::OkStatus();
}

// dx_c = dy_c·s_c^−β − 2αβ/size · x_c · Σ_{j: c in j's window} dy_j·x_j·s_j^−(β+1); windows are symmetric.
absl::Status Run(const program::LrnBackward& op, absl::Span<const Tensor> operands) {
  const program::Shape& shape = operands[0].shape;
  const int64_t plane = shape[2] * shape[3];
  const std::vector<double> x = ReadDense(operands[0]), scale = ScaleOf(op, shape, x), dy = ReadDense(operands[1]);
  std::vector<double> dx(x.size());
  const double factor = 2 * op.alpha * op.beta / static_cast<double>(op.size);
  ForEachWindow(shape, op.size, op.groups, [&](int64_t n, int64_t c, int64_t first, int64_t end) {
    for (int64_t i = 0; i < plane; ++i) {
      double sum = 0;
      for (int64_t j = first; j < end; ++j) {
        const int64_t at = (n * shape[1] + j) * plane + i;
        sum += dy[at] * x[at] * std::pow(scale[at], -op.beta - 1);
      }
      const int64_t at = (n * shape[1] + c) * plane + i;
      dx[at] = dy[at] * std::pow(scale[at], -op.beta) - factor * x[at] * sum;
    }
  });
  WriteDense(dx, operands[2]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
