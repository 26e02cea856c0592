#include "program/batch_norm.h"

#include <vector>

#include "cpu/ref/dense.h"

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
  std::vector<double> y(x.size());
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const program::Normalisation normalisation = At(op, groups, sums, g, c);
    y[i] = (x[i] - normalisation.mean) * normalisation.scale * w[c] + b[c];
    if (op.relu && !(y[i] > 0)) y[i] = 0;
  });
  WriteDense(y, operands[4]);
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormTrack& op, absl::Span<const Tensor> operands) {
  const std::vector<double> sums = ReadDense(operands[0]);
  std::vector<double> mean = ReadDense(operands[1]), var = ReadDense(operands[2]);
  for (size_t c = 0; c < mean.size(); ++c) {
    const program::ChannelMoments batch = program::MomentsOf(sums[c], sums[mean.size() + c], op.count);
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

absl::Status Run(const program::BatchNormBackwardSums& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[2].shape);
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]), sums = ReadDense(operands[2]);
  std::vector<double> dsums(sums.size());
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const program::Normalisation normalisation = At(op, groups, sums, g, c);
    dsums[groups.First(g, c)] += dy[i];
    dsums[groups.Second(g, c)] += dy[i] * (x[i] - normalisation.mean) * normalisation.scale;
  });
  WriteDense(dsums, operands[3]);
  const std::vector<double> totals = Totals(dsums, groups.groups);
  WriteDense({totals.begin() + groups.channels, totals.end()}, operands[4]);
  WriteDense({totals.begin(), totals.begin() + groups.channels}, operands[5]);
  return absl::OkStatus();
}

absl::Status Run(const program::BatchNormBackward& op, absl::Span<const Tensor> operands) {
  const Groups groups(operands[0].shape, operands[2].shape);
  const std::vector<double> x = ReadDense(operands[0]), dy = ReadDense(operands[1]), sums = ReadDense(operands[2]),
                            dsums = ReadDense(operands[3]), w = ReadDense(operands[4]);
  std::vector<double> dx(x.size());
  const auto count = static_cast<double>(op.count);
  groups.ForEach([&](int64_t g, int64_t c, int64_t i) {
    const program::Normalisation normalisation = At(op, groups, sums, g, c);
    const double normalised = (x[i] - normalisation.mean) * normalisation.scale;
    const double mean_dy = (dsums[groups.First(g, c)] + normalised * dsums[groups.Second(g, c)]) / count;
    dx[i] = w[c] * normalisation.scale * (dy[i] - mean_dy);
  });
  WriteDense(dx, operands[5]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
