#include <cmath>
#include <vector>

#include "cpu/ref/dense.h"

namespace colonnade::cpu::ref {
namespace {

// A tensor [n,C,…] and its moments [n,3,…].
struct Positions {
  int64_t samples, channels, plane;

  explicit Positions(const program::Shape& x)
      : samples(x[0]), channels(x[1]), plane(program::ElementCount(x) / (x[0] * x[1])) {}

  int64_t At(int64_t n, int64_t c, int64_t i) const { return (n * channels + c) * plane + i; }
  int64_t MomentAt(int64_t n, int64_t k, int64_t i) const { return (n * 3 + k) * plane + i; }
  double Normalised(const std::vector<double>& x, const std::vector<double>& moments, int64_t n, int64_t c,
                    int64_t i) const {
    const double mean = moments[MomentAt(n, 0, i)] + moments[MomentAt(n, 1, i)];
    return (x[At(n, c, i)] - mean) * moments[MomentAt(n, 2, i)];
  }
  // Calls f(n, i) for each position i of each sample n.
  template <class F>
  void ForEach(F f) const {
    for (int64_t n = 0; n < samples; ++n) {
      for (int64_t i = 0; i < plane; ++i) f(n, i);
    }
  }
};

}  // namespace

absl::Status Run(const program::LayerNormForward& op, absl::Span<const Tensor> operands) {
  const Positions of(operands[0].shape);
  const std::vector<double> x = ReadDense(operands[0]), w = ReadDense(operands[1]), b = ReadDense(operands[2]);
  std::vector<double> y(x.size()), moments(3 * of.samples * of.plane);
  const auto count = static_cast<double>(of.channels);
  of.ForEach([&](int64_t n, int64_t i) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < of.channels; ++c) sum += x[of.At(n, c, i)];
    const double mean = sum / count, rounded = static_cast<float>(mean);
    for (int64_t c = 0; c < of.channels; ++c) {
      const double difference = x[of.At(n, c, i)] - mean;
      squares += difference * difference;
    }
    moments[of.MomentAt(n, 0, i)] = rounded;
    moments[of.MomentAt(n, 1, i)] = mean - rounded;
    moments[of.MomentAt(n, 2, i)] = 1 / std::sqrt(squares / count + op.epsilon);
    for (int64_t c = 0; c < of.channels; ++c) y[of.At(n, c, i)] = of.Normalised(x, moments, n, c, i) * w[c] + b[c];
  });
  WriteDense(y, operands[3]);
  WriteDense(moments, operands[4]);
  return absl::OkStatus();
}

absl::Status Run(const program::LayerNormBackwardData&, absl::Span<const Tensor> operands) {
  const Positions of(operands[0].shape);
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]), moments = ReadDense(operands[2]),
                            w = ReadDense(operands[3]);
  std::vector<double> dx(x.size());
  const auto count = static_cast<double>(of.channels);
  of.ForEach([&](int64_t n, int64_t i) {
    double sum = 0, sum_of_products = 0;
    for (int64_t c = 0; c < of.channels; ++c) {
      const double g = w[c] * dy[of.At(n, c, i)];
      sum += g;
      sum_of_products += g * of.Normalised(x, moments, n, c, i);
    }
    for (int64_t c = 0; c < of.channels; ++c) {
      const double mean_g = (sum + of.Normalised(x, moments, n, c, i) * sum_of_products) / count;
      dx[of.At(n, c, i)] = moments[of.MomentAt(n, 2, i)] * (w[c] * dy[of.At(n, c, i)] - mean_g);
    }
  });
  WriteDense(dx, operands[4]);
  return absl::OkStatus();
}

absl::Status Run(const program::LayerNormBackwardWeights&, absl::Span<const Tensor> operands) {
  const Positions of(operands[0].shape);
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]), moments = ReadDense(operands[2]);
  std::vector<double> dw(of.channels), db(of.channels);
  of.ForEach([&](int64_t n, int64_t i) {
    for (int64_t c = 0; c < of.channels; ++c) {
      dw[c] += dy[of.At(n, c, i)] * of.Normalised(x, moments, n, c, i);
      db[c] += dy[of.At(n, c, i)];
    }
  });
  WriteDense(dw, operands[3]);
  WriteDense(db, operands[4]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
