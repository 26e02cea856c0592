#include "program/formulas/batch_norm.h"

#include <utility>
#include <vector>

#include "cpu/ref/dense.h"
#include "program/formulas/math.h"

namespace colonnade::cpu::ref {
namespace {

// A tensor [n,C,…] whose samples are cut into groups, each of which has sums [2,C].
struct Groups {
  int64_t groups, samples, channels, plane;  // samples of one group

  Groups(const program::Shape& x, const program::Shape& sums)
      : groups(sums[0]), samples(x[0] / sums[0]), channels(x[1]), plane(program::ElementCount(x) / (x[0] * x[1])) {}

  // Where Σ of channel c of group g stands, and the second sum behind it.
  int64_t First(int64_t g, int64_t c) const { return 2 * g * channels + c; }
  int64_t Second(int64_t g, int64_t c) const { return First(g, c) + channels; }

  // Calls f(g, c, i) for each element i.
  template <class F>
  void ForEach(F f) const {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t n = g * samples; n < (g + 1) * samples; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t i = 0; i < plane; ++i) f(g, c, (n * channels + c) * plane + i);
        }
      }
    }
  }
};

template <class Op>
program::Normalisation At(const Op& op, const Groups& of, const std::vector<double>& sums, int64_t g, int64_t c) {
  return program::NormalisationOf(sums[of.First(g, c)], sums[of.Second(g, c)], op.count, op.epsilon);
}

// [G,2,C] → [1,2,C]
std::vector<double> Totals(const std::vector<double>& sums, int64_t groups) {
  std::vector<double> totals(sums.size() / groups);
  for (size_t i = 0; i < sums.size(); ++i) totals[i % totals.size()] += sums[i];
  return totals;
}

// y before addend and activation.
double Affine(const program::Normalisation& at, double x, double w, double b) { return (x - at.mean) * at.scale * w + b; }

// dy where the ReLU that forward fused gave something above zero, else 0, from what forward read.
template <class Op>
std::vector<double> Recalled(const Op& op, const Groups& groups, const Tensor& like, const std::vector<double>& x,
                             std::vector<double> dy, const std::vector<double>& sums, const std::vector<double>& w,
                             const std::vector<double>& b) {
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    if (!(Rounded(Affine(At(op, groups, sums, g, c), x[i], w[c], b[c]), like.dtype) > 0)) dy[i] = 0;
  });
  return dy;
}

// `outputs` are dsums, dw and db.
template <class Op>
void SumGradients(const Op& op, const Groups& groups, const std::vector<double>& x, const std::vector<double>& dy,
                  const std::vector<double>& sums, absl::Span<const Tensor> outputs) {
  std::vector<double> dsums(sums.size());
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const program::Normalisation normalisation = At(op, groups, sums, g, c);
    dsums[groups.First(g, c)] += dy[i];
    dsums[groups.Second(g, c)] += dy[i] * (x[i] - normalisation.mean) * normalisation.scale;
  });
  WriteDense(dsums, outputs[0]);
  const std::vector<double> totals = Totals(dsums, groups.groups);
  WriteDense({totals.begin() + groups.channels, totals.end()}, outputs[1]);
  WriteDense({totals.begin(), totals.begin() + groups.channels}, outputs[2]);
}

}  // namespace

absl::Status Run(const program::BatchNormSums&, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[1].shape);
  const std::vector<double> x = ReadDense(operands[0]);
  std::vector<double> sums(2 * groups.groups * groups.channels);
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    sums[groups.First(g, c)] += x[i];
    sums[groups.Second(g, c)] += x[i] * x[i];
  });
  WriteDense(sums, operands[1]);
  if (operands.size() > 2) WriteDense(Totals(sums, groups.groups), operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormForward& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[1].shape);
  const std::vector<double> x = ReadDense(operands[0]), sums = ReadDense(operands[1]), w = ReadDense(operands[2]),
                            b = ReadDense(operands[3]);
  const bool adds = operands.size() > 5;
  std::vector<double> y = adds ? ReadDense(operands[4]) : std::vector<double>(x.size());
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const double affine = Affine(At(op, groups, sums, g, c), x[i], w[c], b[c]);
    y[i] = adds ? Rounded(affine, operands[0].dtype) + y[i] : affine;
    if (op.relu && !(y[i] > 0)) y[i] = 0;
  });
  WriteDense(y, operands.back());
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormTrack& op, absl::Span<const Tensor> operands) {
  if (operands.size() == 4 && Scalar(operands[3], program::Gate::kIsOpen) == 0) return absl::OkStatus();
  const std::vector<double> sums = ReadDense(operands[0]);
  std::vector<double> mean = ReadDense(operands[1]), var = ReadDense(operands[2]);
  for (size_t c = 0; c < mean.size(); ++c) {
    const program::ChannelMoments batch = program::ComputeMoments(sums[c], sums[mean.size() + c], op.count);
    mean[c] = program::Tracked(mean[c], batch.mean, op.momentum);
    var[c] = program::Tracked(var[c], program::Unbiased(batch.variance, op.count), op.momentum);
  }
  WriteDense(mean, operands[1]);
  WriteDense(var, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormRecall&, absl::Span<const Tensor> operands) {
  const std::vector<double> mean = ReadDense(operands[0]), var = ReadDense(operands[1]);
  std::vector<double> sums(2 * mean.size());
  for (size_t c = 0; c < mean.size(); ++c) {
    sums[c] = mean[c];
    sums[mean.size() + c] = var[c] + mean[c] * mean[c];
  }
  WriteDense(sums, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormFold& op, absl::Span<const Tensor> operands) {
  std::vector<double> weights = ReadDense(operands[0]);
  const std::vector<double> mean = ReadDense(operands[1]), var = ReadDense(operands[2]), w = ReadDense(operands[3]),
                            b = ReadDense(operands[4]);
  std::vector<double> bias = operands.size() > 7 ? ReadDense(operands[5]) : std::vector<double>(b.size());
  const size_t of_channel = weights.size() / b.size();
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t c = i / of_channel;
    weights[i] *= program::FoldedFactor(w[c], var[c], op.epsilon);
  }
  for (size_t c = 0; c < b.size(); ++c)
    bias[c] = b[c] + (bias[c] - mean[c]) * program::FoldedFactor(w[c], var[c], op.epsilon);
  WriteDense(weights, operands[operands.size() - 2]);
  WriteDense(bias, operands.back());
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormBackwardSums& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[2].shape);
  const std::vector<double> x = ReadDense(operands[0]), sums = ReadDense(operands[2]);
  std::vector<double> dy = ReadDense(operands[1]);
  if (operands.size() > 6) {
    dy = Recalled(op, groups, operands[1], x, std::move(dy), sums, ReadDense(operands[3]), ReadDense(operands[4]));
  }
  SumGradients(op, groups, x, dy, sums, operands.last(3));
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormMaskedSums& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[3].shape);
  const std::vector<double> x = ReadDense(operands[0]), y = ReadDense(operands[1]), sums = ReadDense(operands[3]);
  std::vector<double> dz = ReadDense(operands[2]);
  const Tensor& masked = operands[operands.size() - 4];
  if (operands.size() > 8) {
    const std::vector<double> more = ReadDense(operands[4]);
    for (size_t i = 0; i < dz.size(); ++i) dz[i] += more[i];
  }
  for (size_t i = 0; i < dz.size(); ++i) dz[i] = Rounded(program::ReluGradient(y[i], dz[i]), masked.dtype);
  WriteDense(dz, masked);
  SumGradients(op, groups, x, dz, sums, operands.last(3));
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormBackward& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[2].shape);
  const std::vector<double> x = ReadDense(operands[0]), sums = ReadDense(operands[2]), dsums = ReadDense(operands[3]),
                            w = ReadDense(operands[4]);
  std::vector<double> dy = ReadDense(operands[1]), dx(x.size());
  if (operands.size() > 6) {
    dy = Recalled(op, groups, operands[1], x, std::move(dy), sums, w, ReadDense(operands[5]));
  }
  const auto count = static_cast<double>(op.count);
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const program::Normalisation normalisation = At(op, groups, sums, g, c);
    const double normalised = (x[i] - normalisation.mean) * normalisation.scale;
    const double mean_dy = (dsums[groups.First(g, c)] + normalised * dsums[groups.Second(g, c)]) / count;
    dx[i] = w[c] * normalisation.scale * (dy[i] - mean_dy);
  });
  WriteDense(dx, operands.back());
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
