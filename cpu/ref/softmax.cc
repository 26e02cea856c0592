#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cpu/ref/dense.h"

namespace colonnade::cpu::ref {
namespace {

absl::Status CheckLabel(int64_t sample, int64_t label, int64_t classes) {
  if (label < classes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("label of sample %d: expected below %s, found %d", sample, base::Counted(classes, "class"), label));
}

// Classes that stand before `label`: larger logits, and equal ones of smaller index. A NaN stands before all.
int64_t RankOf(const double* logits, int64_t classes, int64_t label) {
  int64_t rank = 0;
  for (int64_t k = 0; k < classes; ++k) {
    if (k != label && (!(logits[k] <= logits[label]) || (logits[k] == logits[label] && k < label))) ++rank;
  }
  return rank;
}

}  // namespace

absl::Status Run(const program::SoftmaxCrossEntropyForward& op, absl::Span<const Tensor> operands) {
  const int64_t n = operands[0].shape[0], classes = operands[0].shape[1];
  const std::vector<double> logits = ReadDense(operands[0]), labels = ReadDense(operands[1]);
  std::vector<double> p(n * classes), metrics(program::Metric::kCount);
  for (int64_t s = 0; s < n; ++s) {
    const double* row = logits.data() + s * classes;
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += p[s * classes + k] = std::exp(row[k] - largest);
    for (int64_t k = 0; k < classes; ++k) p[s * classes + k] /= sum;
    const auto label = static_cast<int64_t>(labels[s]);
    if (label < 0) continue;
    RETURN_IF_ERROR(CheckLabel(s, label, classes));
    const int64_t rank = RankOf(row, classes, label);
    double smoothed = (1 - op.label_smoothing) * row[label];
    for (int64_t k = 0; k < classes && op.label_smoothing > 0; ++k) smoothed += op.label_smoothing / classes * row[k];
    metrics[program::Metric::kLossSum] += op.weight * (largest + std::log(sum) - smoothed);
    metrics[program::Metric::kTop1Hits] += rank < 1;
    metrics[program::Metric::kTop5Hits] += rank < 5;
    metrics[program::Metric::kLabelCount] += 1;
  }
  WriteDense(p, operands[2]);
  WriteDense(metrics, operands[3]);
  return absl::OkStatus();
}

absl::Status Run(const program::CountLabels&, absl::Span<const Tensor> operands) {
  double count = 0;
  for (const Tensor& operand : operands.first(operands.size() - 1)) {
    for (double label : ReadDense(operand)) count += label >= 0;
  }
  WriteDense({count}, operands.back());
  return absl::OkStatus();
}

absl::Status Run(const program::SoftmaxCrossEntropyBackward& op, absl::Span<const Tensor> operands) {
  const int64_t n = operands[1].shape[0], classes = operands[1].shape[1];
  const double count = std::max(Scalar(operands[0], 0), 1.0);
  const std::vector<double> p = ReadDense(operands[1]), labels = ReadDense(operands[2]);
  std::vector<double> d(p.size());
  for (int64_t s = 0; s < n; ++s) {
    const auto label = static_cast<int64_t>(labels[s]);
    if (label < 0) continue;
    RETURN_IF_ERROR(CheckLabel(s, label, classes));
    for (int64_t k = 0; k < classes; ++k) {
      const double target = (k == label ? 1 - op.label_smoothing : 0) + op.label_smoothing / classes;
      d[s * classes + k] = op.weight * (p[s * classes + k] - target) / count;
    }
  }
  WriteDense(d, operands[3]);
  return absl::OkStatus();
}

}  // namespace colonnade::cpu::ref
