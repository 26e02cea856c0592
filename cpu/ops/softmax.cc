#include "cpu/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/ops/element.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/softmax.h"

namespace colonnade::cpu {

namespace {

// What one sample adds to the metrics.
struct SampleMetrics {
  double loss = 0;
  int32_t rank = 0;  // classes that are ahead of the label's
  bool counts = false;
};

// p = softmax(logits) of one sample; returns its metrics.
template <class T>
SampleMetrics Softmax(const program::SoftmaxCrossEntropyForward& op, const T* logits, int64_t stride, int64_t classes,
                      int32_t label, float* p, int64_t p_stride) {
  float largest = logits[0];
  for (int64_t k = 1; k < classes; ++k) largest = std::max(largest, float{logits[k * stride]});
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) {
    const float e = std::exp(logits[k * stride] - largest);
    p[k * p_stride] = e;
    sum += e;
  }
  for (int64_t k = 0; k < classes; ++k) p[k * p_stride] = static_cast<float>(p[k * p_stride] / sum);
  if (label < 0) return {};
  const float own = logits[label * stride];
  const double smoothing = op.label_smoothing;
  double smoothed = (1 - smoothing) * own;
  for (int64_t k = 0; k < classes && smoothing > 0; ++k)
    smoothed += smoothing / static_cast<double>(classes) * logits[k * stride];
  SampleMetrics metrics = {.loss = op.weight * (std::log(sum) + (largest - smoothed)), .counts = true};
  for (int64_t k = 0; k < classes; ++k) {
    metrics.rank += program::IsAhead<float>(logits[k * stride], k, own, label) ? 1 : 0;
  }
  return metrics;
}

// Logits are of T.
template <class T>
PreparedKernel PrepareForward(T, const program::SoftmaxCrossEntropyForward& op, const TaskContext& context) {
  const int64_t samples = context.view(0).shape[0], classes = context.view(0).shape[1];
  return MakeKernel(
      [op, logits_view = context.view(0), labels_view = context.view(1), p_view = context.view(2),
       metrics_offset = context.view(3).offset, samples, classes, threads = context.threads](const RunArguments& run) {
        const T* logits = run.as<const T>(0) + logits_view.offset;
        const int32_t* labels = run.as<const int32_t>(1) + labels_view.offset;
        float* p = run.as<float>(2) + p_view.offset;
        for (int64_t n = 0; n < samples; ++n) {
          const int32_t label = labels[n * labels_view.strides[0]];
          if (label >= classes) {
            return absl::InvalidArgumentError(
                absl::StrCat("label ", label, " of sample ", n, " is not below the number of classes, ", classes));
          }
        }
        auto* each = reinterpret_cast<SampleMetrics*>(run.workspace);
        ParallelFor(threads, samples, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            each[n] = Softmax(op, logits + n * logits_view.strides[0], logits_view.strides[1], classes,
                              labels[n * labels_view.strides[0]], p + n * p_view.strides[0], p_view.strides[1]);
          }
        });
        double* metrics = run.as<double>(3) + metrics_offset;
        std::fill(metrics, metrics + program::Metric::kCount, 0.0);
        for (int64_t n = 0; n < samples; ++n) {
          if (!each[n].counts) continue;
          metrics[program::Metric::kLossSum] += each[n].loss;
          metrics[program::Metric::kTop1Hits] += each[n].rank < 1 ? 1 : 0;
          metrics[program::Metric::kTop5Hits] += each[n].rank < 5 ? 1 : 0;
          metrics[program::Metric::kLabelCount] += 1;
        }
        return absl::OkStatus();
      },
      samples * static_cast<int64_t>(sizeof(SampleMetrics)));
}

}  // namespace

PreparedKernel Prepare(const program::SoftmaxCrossEntropyForward& op, const TaskContext& context) {
  return WithElement(context.view(0).dtype, [&](auto zero) { return PrepareForward(zero, op, context); });
}

PreparedKernel Prepare(const program::CountLabels&, const TaskContext& context) {
  std::vector<View> views;
  for (size_t i = 0; i < context.operands.size(); ++i) views.push_back(context.view(i));
  return MakeKernel([views = std::move(views)](const RunArguments& run) {
    const size_t last = views.size() - 1;
    int64_t count = 0;
    for (size_t i = 0; i < last; ++i) {
      const int32_t* labels = run.as<const int32_t>(i) + views[i].offset;
      for (int64_t n = 0; n < views[i].shape[0]; ++n) count += labels[n * views[i].strides[0]] >= 0 ? 1 : 0;
    }
    run.as<double>(last)[views[last].offset] = static_cast<double>(count);
    return absl::OkStatus();
  });
}

namespace {

// The gradient is of T.
template <class T>
PreparedKernel PrepareBackward(T, const program::SoftmaxCrossEntropyBackward& op, const TaskContext& context) {
  return MakeKernel([op, count_offset = context.view(0).offset, p_view = context.view(1), labels_view = context.view(2),
                     d_view = context.view(3), threads = context.threads](const RunArguments& run) {
    const double count = std::max(run.as<const double>(0)[count_offset], 1.0);
    const float scale = static_cast<float>(op.weight / count);
    const auto target = [&](bool is_label) {
      return program::SmoothedTarget<float>(op.label_smoothing, p_view.shape[1], is_label);
    };
    const float of_each = target(false), of_label = target(true);
    const float* p = run.as<const float>(1) + p_view.offset;
    const int32_t* labels = run.as<const int32_t>(2) + labels_view.offset;
    T* dlogits = run.as<T>(3) + d_view.offset;
    ParallelFor(threads, p_view.shape[0], [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int32_t label = labels[n * labels_view.strides[0]];
        for (int64_t k = 0; k < p_view.shape[1]; ++k) {
          const float probability = p[n * p_view.strides[0] + k * p_view.strides[1]];
          dlogits[n * d_view.strides[0] + k * d_view.strides[1]] =
              static_cast<T>(label < 0 ? 0.0f : (probability - (k == label ? of_label : of_each)) * scale);
        }
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

PreparedKernel Prepare(const program::SoftmaxCrossEntropyBackward& op, const TaskContext& context) {
  return WithElement(context.view(3).dtype, [&](auto zero) { return PrepareBackward(zero, op, context); });
}

}  // namespace colonnade::cpu
