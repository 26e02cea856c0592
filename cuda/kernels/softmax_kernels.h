// Kernels of softmax, cross entropy and its metrics; kernels.h says how they are written.
#ifndef COLONNADE_CUDA_SOFTMAX_KERNELS_H_
#define COLONNADE_CUDA_SOFTMAX_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "cuda/kernels/reduction.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/softmax.h"
#include "program/op.h"

namespace colonnade::cuda {

// A summary of some logits of a sample: their largest, Σ exp(x − largest), Σ x, and how many are ahead of the label's.
struct SoftmaxPart {
  float largest;
  int32_t ahead;
  double sum, sum_of_logits;
};
// What a sample, or several, add to the metrics.
struct SampleMetrics {
  double loss;
  int32_t top1, top5, counts;  // counts: labels ≥ 0
};

// A sample's logits as one SoftmaxPart, and its metrics. A label that is no class makes the loss NaN, which the host sees.
template <class T>
struct SoftmaxSamples {
  double weight, smoothing;
  int64_t samples, classes;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  SoftmaxPart* totals;
  SampleMetrics* metrics;
  using Part = SoftmaxPart;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return samples; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t n, int row, int rows, int) const {
    const T* x = logits + n * logits_stride_n;
    const int32_t label = labels[n * labels_stride];
    const bool has_own = label >= 0 && label < classes;
    const float own = has_own ? float{x[label * logits_stride_k]} : 0.0f;
    Part part = {-INFINITY, 0, 0, 0};
    for (int64_t c = row; c < classes; c += rows) {
      const float other = x[c * logits_stride_k];
      if (other > part.largest) part.largest = other;
      part.sum_of_logits += static_cast<double>(other);
      if (has_own && program::IsAhead(other, c, own, label)) ++part.ahead;
    }
    for (int64_t c = row; c < classes; c += rows) part.sum += ShareOf(x[c * logits_stride_k], part.largest);
    return part;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) {
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.ahead + b.ahead, a.sum * ShareOf(a.largest, largest) + b.sum * ShareOf(b.largest, largest),
            a.sum_of_logits + b.sum_of_logits};
  }
  COLONNADE_HOST_DEVICE void Put(int64_t n, int, const Part& total) const {
    totals[n] = total;
    const int32_t label = labels[n * labels_stride];
    SampleMetrics of = {0, 0, 0, label >= 0 ? 1 : 0};
    if (label >= classes) {
      of.loss = static_cast<double>(NAN);
    } else if (label >= 0) {
      const float own = logits[n * logits_stride_n + label * logits_stride_k];
      const double spread = smoothing > 0 ? smoothing / static_cast<double>(classes) * total.sum_of_logits : 0;
      of.loss = weight * (log(total.sum) + (static_cast<double>(total.largest) - (1 - smoothing) * own - spread));
      of.top1 = total.ahead < 1 ? 1 : 0;
      of.top5 = total.ahead < 5 ? 1 : 0;
    }
    metrics[n] = of;
  }

 private:
  // exp(x − largest); of −∞ none, also where nothing is larger.
  COLONNADE_HOST_DEVICE static float ShareOf(float x, float largest) { return x == -INFINITY ? 0.0f : expf(x - largest); }
};
// p = exp(x − largest) / Σ.
template <class T>
struct SoftmaxElements {
  int64_t samples, classes;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const SoftmaxPart* totals;
  float* p;
  int64_t p_stride_n, p_stride_k;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * classes; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, classes), c = i - n * classes;
    const float e = expf(logits[n * logits_stride_n + c * logits_stride_k] - totals[n].largest);
    p[n * p_stride_n + c * p_stride_k] = static_cast<float>(e / totals[n].sum);
  }
};
// metrics = Σ over samples.
struct SumMetrics {
  int64_t samples;
  const SampleMetrics* of;
  double* metrics;
  using Part = SampleMetrics;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return 1; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t, int row, int rows, int) const {
    Part sum = {0, 0, 0, 0};
    for (int64_t n = row; n < samples; n += rows) sum = Merge(sum, of[n]);
    return sum;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) {
    return {a.loss + b.loss, a.top1 + b.top1, a.top5 + b.top5, a.counts + b.counts};
  }
  COLONNADE_HOST_DEVICE void Put(int64_t, int, const Part& sum) const {
    metrics[program::Metric::kLossSum] = sum.loss;
    metrics[program::Metric::kTop1Hits] = sum.top1;
    metrics[program::Metric::kTop5Hits] = sum.top5;
    metrics[program::Metric::kLabelCount] = sum.counts;
  }
};

// Counts the labels that are not negative, and adds those counted before.
struct CountOfLabels {
  bool begins;  // none were
  int64_t samples;
  const int32_t* labels;
  int64_t labels_stride;
  double* count;
  using Part = int64_t;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return 1; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t, int row, int rows, int) const {
    Part found = 0;
    for (int64_t n = row; n < samples; n += rows) found += labels[n * labels_stride] >= 0 ? 1 : 0;
    return found;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) { return a + b; }
  COLONNADE_HOST_DEVICE void Put(int64_t, int, const Part& found) const {
    *count = (begins ? 0 : *count) + static_cast<double>(found);
  }
};

template <class T>
struct SoftmaxBackwardElements {
  double weight, smoothing;
  int64_t samples, classes;
  const double* labels_in_all;
  const float* p;
  int64_t p_stride_n, p_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  T* dlogits;
  int64_t d_stride_n, d_stride_k;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * classes; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, classes), c = i - n * classes;
    const int32_t label = labels[n * labels_stride];
    const float scale = static_cast<float>(weight / (*labels_in_all > 1 ? *labels_in_all : 1));
    const float target = program::SmoothedTarget<float>(smoothing, classes, c == label);
    const float d = label < 0 ? 0.0f : (p[n * p_stride_n + c * p_stride_k] - target) * scale;
    dlogits[n * d_stride_n + c * d_stride_k] = static_cast<T>(d);
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_SOFTMAX_KERNELS_H_
