#include <vector>

#include "cpu/ref/dense.h"

namespace colonnade::cpu::ref {

absl::Status Run(const program::FullyConnectedForward& op, absl::Span<const Tensor> operands) {
  const int64_t n = operands[0].shape[0], in = operands[0].shape[1], out = operands[1].shape[0];
  const std::vector<double> x = ReadDense(operands[0]), w = ReadDense(operands[1]);
  const std::vector<double> b = op.bias ? ReadDense(operands[2]) : std::vector<double>(out);
  std::vector<double> y(n * out);
  for (int64_t s = 0; s < n; ++s) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += x[s * in + i] * w[o * in + i];
      sum += b[o];
      y[s * out + o] = op.relu && !(sum > 0) ? 0 : sum;
    }
  }
  WriteDense(y, operands.back());
  return absl::OkStatus();
}

absl::Status Run(const program::FullyConnectedBackwardData&, absl::Span<const Tensor> operands) {
  const int64_t n = operands[0].shape[0], out = operands[0].shape[1], in = operands[1].shape[1];
  const std::vector<double> dy = ReadDense(operands[0]), w = ReadDense(operands[1]);
  std::vector<double> dx(n * in);
  for (int64_t s = 0; s < n; ++s) {
    for (int64_t o = 0; o < out; ++o) {
      const double g = dy[s * out + o];
      for (int64_t i = 0; i < in; ++i) dx[s * in + i] += g * w[o * in + i];
    }
  }
  WriteDense(dx, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::FullyConnectedBackwardWeights& op, absl::Span<const Tensor> operands) {
  const int64_t n = operands[0].shape[0], in = operands[0].shape[1], out = operands[1].shape[1];
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]);
  std::vector<double> dw(out * in), db(out);
  for (int64_t s = 0; s < n; ++s) {
    for (int64_t o = 0; o < out; ++o) {
      const double g = dy[s * out + o];
      db[o] += g;
      for (int64_t i = 0; i < in; ++i) dw[o * in + i] += g * x[s * in + i];
    }
  }
  WriteDense(dw, operands[2]);
  if (op.bias) WriteDense(db, operands[3]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
