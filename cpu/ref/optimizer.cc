#include <vector>

#include "cpu/ref/dense.h"
#include "program/formulas/update_gate.h"

namespace colonnade::cpu::ref {
namespace {

std::vector<engine::MemberRange> RangesOf(const Tensor& tensor) {
  if (!tensor.members.empty()) return tensor.members;
  return {{0, 0, program::ElementCount(tensor.shape)}};
}

// Calls step(rate, weight_decay, g, state, w), the `moments` kept numbers of an element in `state`, for each element.
template <class Op, class Step>
void Update(const Op& op, absl::Span<const Tensor> operands, size_t moments, const Step& step) {
  const size_t w_at = operands.size() - 1, g_at = w_at - moments - 1;
  const bool gated = g_at > 1;
  if (gated && Scalar(operands[1], program::Gate::kIsOpen) == 0) return;
  const double scale = gated ? Scalar(operands[1], program::Gate::kGradientScale) : 1;
  const std::vector<double> g = ReadDense(operands[g_at]);
  std::vector<double> w = ReadDense(operands[w_at]);
  std::vector<std::vector<double>> kept;
  for (size_t k = 0; k < moments; ++k) kept.push_back(ReadDense(operands[g_at + 1 + k]));
  std::vector<double> state(moments);
  for (const engine::MemberRange& range : RangesOf(operands[w_at])) {
    const double trust = gated ? Scalar(operands[2], range.member) : 1;
    const double rate =
        Scalar(operands[0], program::StepScalar::kLearningRate) * program::FactorOf(op.rates, range.member) * trust;
    const double decay = op.weight_decay * program::FactorOf(op.decays, range.member);
    for (int64_t i = range.begin; i < range.end; ++i) {
      for (size_t k = 0; k < moments; ++k) state[k] = kept[k][i];
      step(rate, decay, scale * g[i], state, w[i]);
      for (size_t k = 0; k < moments; ++k) kept[k][i] = state[k];
    }
  }
  for (size_t k = 0; k < moments; ++k) WriteDense(kept[k], operands[g_at + 1 + k]);
  WriteDense(w, operands[w_at]);
}

}  // namespace

absl::Status Run(const program::SgdUpdate& op, absl::Span<const Tensor> operands) {
  Update(op, operands, 1, [&](double rate, double decay, double g, std::vector<double>& state, double& w) {
    program::SgdStep(op.form, rate, op.momentum, decay, g, state[0], w);
  });
  return absl::OkStatus();
}

absl::Status Run(const program::AdamWUpdate& op, absl::Span<const Tensor> operands) {
  const program::AdamWStep<double> step(op.adam, Scalar(operands[0], program::StepScalar::kStep) + 1);
  Update(op, operands, 2, [&](double rate, double decay, double g, std::vector<double>& state, double& w) {
    step(rate, decay, g, state[0], state[1], w);
  });
  return absl::OkStatus();
}

absl::Status Run(const program::AverageUpdate& op, absl::Span<const Tensor> operands) {
  const size_t w_at = operands.size() - 2;
  if (w_at > 0 && Scalar(operands[0], program::Gate::kIsOpen) == 0) return absl::OkStatus();
  const std::vector<double> w = ReadDense(operands[w_at]);
  std::vector<double> e = ReadDense(operands[w_at + 1]);
  for (size_t i = 0; i < e.size(); ++i) e[i] += (1 - op.decay) * (w[i] - e[i]);
  WriteDense(e, operands[w_at + 1]);
  return absl::OkStatus();
}

absl::Status Run(const program::SquaredNorms& op, absl::Span<const Tensor> operands) {
  const Tensor& norms = operands.back();
  std::vector<double> sums(program::ElementCount(norms.shape), 0);
  for (size_t k = 0; k + 1 < operands.size(); ++k) {
    const std::vector<double> x = ReadDense(operands[k]);
    for (const engine::MemberRange& range : RangesOf(operands[k])) {
      if (program::FactorOf(op.counted, range.member) == 0) continue;
      for (int64_t i = range.begin; i < range.end; ++i) sums[2 * range.member + k] += x[i] * x[i];
    }
  }
  WriteDense(sums, norms);
  return absl::OkStatus();
}

absl::Status Run(const program::UpdateGate& op, absl::Span<const Tensor> operands) {
  const std::vector<double> norms = ReadDense(operands[0]);
  const size_t count = norms.size() / 2;
  double total = 0;
  for (size_t i = 0; i < count; ++i) total += norms[2 * i];
  const double scale = program::ClipScale(op.clip_norm, total);
  WriteDense({program::IsFinite(total) ? 1.0 : 0.0, scale}, operands[1]);
  std::vector<double> trust(count);
  for (size_t i = 0; i < count; ++i) {
    const double decay = op.weight_decay * program::FactorOf(op.decays, i);
    trust[i] = program::FactorOf(op.adapted, i) == 0
                   ? 1
                   : program::TrustRatio(op.trust, decay, scale, norms[2 * i], norms[2 * i + 1]);
  }
  WriteDense(trust, operands[2]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
