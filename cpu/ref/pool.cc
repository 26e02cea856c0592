#include <vector>

#include "cpu/ref/dense.h"

namespace colonnade::cpu::ref {
namespace {

// Calls f(x index, y index, place in the window) for every cell of every window that lies in the image, row-major.
template <class F>
void ForEachCell(const program::Window& window, const program::Shape& x, const program::Shape& y, F f) {
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    for (int64_t p = 0; p < y[2]; ++p) {
      for (int64_t q = 0; q < y[3]; ++q) {
        for (int64_t r = 0; r < window.size_h; ++r) {
          for (int64_t s = 0; s < window.size_w; ++s) {
            const int64_t row = p * window.stride_h + r - window.pad_top, column = q * window.stride_w + s - window.pad_left;
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            f((plane * x[2] + row) * x[3] + column, (plane * y[2] + p) * y[3] + q, r * window.size_w + s);
          }
        }
      }
    }
  }
}

// The divisor of each window's mean: its cells in the image, or in the image with all the padding that counts.
std::vector<double> Divisors(program::Window window, bool count_pad, const program::Shape& x, const program::Shape& y) {
  program::Shape counted = x;
  if (count_pad) {
    counted[2] += 2 * window.pad_top;
    counted[3] += 2 * window.pad_left;
    window.pad_top = window.pad_left = 0;
  }
  std::vector<double> divisors(program::ElementCount(y));
  ForEachCell(window, counted, y, [&](int64_t, int64_t out, int64_t) { divisors[out] += 1; });
  return divisors;
}

}  // namespace

absl::Status Run(const program::MaxPoolForward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> x = ReadDense(operands[0]);
  const int64_t count = program::ElementCount(operands[1].shape);
  std::vector<double> y(count), argmax(count, -1);
  ForEachCell(op.window, operands[0].shape, operands[1].shape, [&](int64_t in, int64_t out, int64_t place) {
    if (argmax[out] >= 0 && !(x[in] > y[out])) return;
    y[out] = x[in];
    argmax[out] = static_cast<double>(place);
  });
  WriteDense(y, operands[1]);
  if (operands.size() > 2) WriteDense(argmax, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::MaxPoolBackward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> argmax = ReadDense(operands[0]), dy = ReadDense(operands[1]);
  std::vector<double> dx(program::ElementCount(operands[2].shape));
  ForEachCell(op.window, operands[2].shape, operands[1].shape, [&](int64_t in, int64_t out, int64_t place) {
    if (static_cast<int64_t>(argmax[out]) == place) dx[in] += dy[out];
  });
  WriteDense(dx, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::AvgPoolForward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> x = ReadDense(operands[0]);
  const std::vector<double> divisors = Divisors(op.window, op.count_pad, operands[0].shape, operands[1].shape);
  std::vector<double> y(divisors.size());
  ForEachCell(op.window, operands[0].shape, operands[1].shape, [&](int64_t in, int64_t out, int64_t) { y[out] += x[in]; });
  for (size_t i = 0; i < y.size(); ++i) y[i] /= divisors[i];
  WriteDense(y, operands[1]);
  return absl::OkStatus();
}

absl::Status Run(const program::AvgPoolBackward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> dy = ReadDense(operands[0]);
  const std::vector<double> divisors = Divisors(op.window, op.count_pad, operands[1].shape, operands[0].shape);
  std::vector<double> dx(program::ElementCount(operands[1].shape));
  ForEachCell(op.window, operands[1].shape, operands[0].shape,
              [&](int64_t in, int64_t out, int64_t) { dx[in] += dy[out] / divisors[out]; });
  WriteDense(dx, operands[1]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
