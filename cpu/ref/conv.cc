#include <algorithm>
#include <vector>

#include "cpu/ref/dense.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu::ref {
namespace {

// Extents of a convolution and the range of output columns whose input column is inside the image.
struct Conv {
  program::Window window;
  int64_t groups;
  int64_t n, c, h, w, k, p, q;

  Conv(const program::Window& win, int64_t g, const program::Shape& x, const program::Shape& y)
      : window(win), groups(g), n(x[0]), c(x[1]), h(x[2]), w(x[3]), k(y[1]), p(y[2]), q(y[3]) {}

  int64_t c_per_group() const { return c / groups; }
  int64_t k_per_group() const { return k / groups; }
  int64_t Row(int64_t out, int64_t r) const { return out * window.stride_h + r - window.pad_top; }
  int64_t Column(int64_t out, int64_t s) const { return out * window.stride_w + s - window.pad_left; }
  int64_t FirstColumn(int64_t s) const {
    const int64_t missing = window.pad_left - s;
    return missing <= 0 ? 0 : program::CeilDiv(missing, window.stride_w);
  }
  int64_t EndColumn(int64_t s) const {
    const int64_t last = w - 1 + window.pad_left - s;
    return last < 0 ? 0 : std::min(q, last / window.stride_w + 1);
  }
};

// Calls f(x row, y row, w index, first q, end q, s) for each image, filter, its channels and filter taps, and output row.
template <class F>
void ForEachRow(const Conv& conv, F f) {
  for (int64_t n = 0; n < conv.n; ++n) {
    for (int64_t k = 0; k < conv.k; ++k) {
      const int64_t first_c = k / conv.k_per_group() * conv.c_per_group();
      for (int64_t c = 0; c < conv.c_per_group(); ++c) {
        for (int64_t r = 0; r < conv.window.size_h; ++r) {
          for (int64_t s = 0; s < conv.window.size_w; ++s) {
            const int64_t w = ((k * conv.c_per_group() + c) * conv.window.size_h + r) * conv.window.size_w + s;
            const int64_t first = conv.FirstColumn(s), end = conv.EndColumn(s);
            for (int64_t p = 0; p < conv.p; ++p) {
              const int64_t row = conv.Row(p, r);
              if (row < 0 || row >= conv.h) continue;
              const int64_t x = ((n * conv.c + first_c + c) * conv.h + row) * conv.w + s - conv.window.pad_left;
              const int64_t y = ((n * conv.k + k) * conv.p + p) * conv.q;
              f(x, y, w, first, end);
            }
          }
        }
      }
    }
  }
}

std::vector<double> BiasSum(const std::vector<double>& dy, const program::Shape& shape) {
  std::vector<double> db(shape[1]);
  const int64_t plane = shape[2] * shape[3];
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      for (int64_t i = 0; i < plane; ++i) db[k] += dy[(n * shape[1] + k) * plane + i];
    }
  }
  return db;
}

}  // namespace

absl::Status Run(const program::ConvForward& op, absl::Span<const Tensor> operands) {
  const Tensor& y_tensor = operands.back();
  const Conv conv(op.window, op.groups, operands[0].shape, y_tensor.shape);
  const std::vector<double> x = ReadDense(operands[0]), w = ReadDense(operands[1]);
  std::vector<double> y(program::ElementCount(y_tensor.shape));
  const int64_t stride = op.window.stride_w;
  ForEachRow(conv, [&](int64_t x_row, int64_t y_row, int64_t w_at, int64_t first, int64_t end) {
    const double weight = w[w_at];
    double* out = y.data() + y_row;
    const double* in = x.data() + x_row;
    for (int64_t q = first; q < end; ++q) out[q] += weight * in[q * stride];
  });
  if (op.bias) {
    const std::vector<double> b = ReadDense(operands[2]);
    const int64_t plane = conv.p * conv.q;
    for (size_t i = 0; i < y.size(); ++i) y[i] += b[static_cast<int64_t>(i) / plane % conv.k];
  }
  if (op.relu) {
    for (double& v : y) v = v > 0 ? v : 0;
  }
  WriteDense(y, y_tensor);
  return absl::OkStatus();
}

absl::Status Run(const program::ConvBackwardData& op, absl::Span<const Tensor> operands) {
  const Tensor& dx_tensor = operands[2];
  const Conv conv(op.window, op.groups, dx_tensor.shape, operands[0].shape);
  const std::vector<double> dy = ReadDense(operands[0]), w = ReadDense(operands[1]);
  std::vector<double> dx(program::ElementCount(dx_tensor.shape));
  const int64_t stride = op.window.stride_w;
  ForEachRow(conv, [&](int64_t x_row, int64_t y_row, int64_t w_at, int64_t first, int64_t end) {
    const double weight = w[w_at];
    double* out = dx.data() + x_row;
    const double* in = dy.data() + y_row;
    for (int64_t q = first; q < end; ++q) out[q * stride] += weight * in[q];
  });
  WriteDense(dx, dx_tensor);
  return absl::OkStatus();
}

absl::Status Run(const program::ConvBackwardWeights& op, absl::Span<const Tensor> operands) {
  const Conv conv(op.window, op.groups, operands[0].shape, operands[1].shape);
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]);
  std::vector<double> dw(program::ElementCount(operands[2].shape));
  const int64_t stride = op.window.stride_w;
  ForEachRow(conv, [&](int64_t x_row, int64_t y_row, int64_t w_at, int64_t first, int64_t end) {
    const double* in = x.data() + x_row;
    const double* gradient = dy.data() + y_row;
    double sum = 0;
    for (int64_t q = first; q < end; ++q) sum += gradient[q] * in[q * stride];
    dw[w_at] += sum;
  });
  WriteDense(dw, operands[2]);
  if (op.bias) WriteDense(BiasSum(dy, operands[1].shape), operands[3]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
