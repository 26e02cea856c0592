#include <vector>

#include "cpu/ref/dense.h"
#include "program/formulas/math.h"

namespace colonnade::cpu::ref {

absl::Status Run(const program::Copy&, absl::Span<const Tensor> operands) {
  WriteDense(ReadDense(operands[0]), operands[1]);
  return absl::OkStatus();
}

absl::Status Run(const program::Normalise& op, absl::Span<const Tensor> operands) {
  const std::vector<double> x = ReadDense(operands[0]);
  const int64_t channels = operands[0].shape.back(),
                plane = program::ElementCount(operands[0].shape) / channels / operands[0].shape[0];
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t c = static_cast<int64_t>(i) % channels, at = static_cast<int64_t>(i) / channels;
    y[(at / plane * channels + c) * plane + at % plane] = op.scale[c] * x[i] + op.shift[c];
  }
  WriteDense(y, operands[1]);
  return absl::OkStatus();
}

absl::Status Run(const program::Sum&, absl::Span<const Tensor> operands) {
  std::vector<double> y = ReadDense(operands[0]);
  for (size_t k = 1; k + 1 < operands.size(); ++k) {
    const std::vector<double> x = ReadDense(operands[k]);
    for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  }
  WriteDense(y, operands.back());
  return absl::OkStatus();
}

absl::Status Run(const program::BiasForward&, absl::Span<const Tensor> operands) {
  std::vector<double> y = ReadDense(operands[0]);
  const std::vector<double> b = ReadDense(operands[1]);
  const int64_t channels = operands[0].shape[1];
  const int64_t plane = program::ElementCount(operands[0].shape) / operands[0].shape[0] / channels;
  for (size_t i = 0; i < y.size(); ++i) y[i] += b[static_cast<int64_t>(i) / plane % channels];
  WriteDense(y, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::BiasBackward&, absl::Span<const Tensor> operands) {
  const std::vector<double> dy = ReadDense(operands[0]);
  const int64_t channels = operands[0].shape[1];
  const int64_t plane = program::ElementCount(operands[0].shape) / operands[0].shape[0] / channels;
  std::vector<double> db(channels);
  for (size_t i = 0; i < dy.size(); ++i) db[static_cast<int64_t>(i) / plane % channels] += dy[i];
  WriteDense(db, operands[1]);
  return absl::OkStatus();
}

absl::Status Run(const program::ActivationForward& op, absl::Span<const Tensor> operands) {
  std::vector<double> y = ReadDense(operands[0]);
  program::WithFormula(op.activation, [&](auto formula) {
    for (double& v : y) v = formula.Value(v);
  });
  WriteDense(y, operands[1]);
  return absl::OkStatus();
}

absl::Status Run(const program::ActivationBackward& op, absl::Span<const Tensor> operands) {
  const std::vector<double> kept = ReadDense(operands[0]);
  std::vector<double> dx = ReadDense(operands[1]);
  program::WithFormula(op.activation, [&](auto formula) {
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = formula.Gradient(kept[i], dx[i]);
  });
  WriteDense(dx, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::Dropout& op, absl::Span<const Tensor> operands) {
  const auto seed = static_cast<uint64_t>(Scalar(operands[0], program::StepScalar::kSeed));
  const auto step = static_cast<uint64_t>(Scalar(operands[0], program::StepScalar::kStep));
  std::vector<double> y = ReadDense(operands[1]);
  const program::Shape& shape = operands[1].shape;
  program::Shape index(shape.size(), 0);
  for (double& v : y) {
    int64_t global = 0;
    for (size_t d = 0; d < shape.size(); ++d) global = global * op.global_shape[d] + op.offset[d] + index[d];
    const program::Keep4 keep = program::DropoutBlock(seed, op.stream, step, static_cast<uint64_t>(global) / 4, op.rate);
    v = keep.keep[global % 4] ? v * (1 / (1 - op.rate)) : 0;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  WriteDense(y, operands[2]);
  return absl::OkStatus();
}

absl::Status Run(const program::CheckFinite&, absl::Span<const Tensor> operands) {
  for (size_t i = 0; i < operands.size(); i += 2) {
    double finite = 1;
    for (double v : ReadDense(operands[i])) {
      if (!program::IsFinite(v)) finite = 0;
    }
    WriteDense({finite}, operands[i + 1]);
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
