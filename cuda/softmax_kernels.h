// Kernels of softmax, cross entropy and its metrics; kernels.h says how they are written.
#ifndef COLONNADE_CUDA_SOFTMAX_KERNELS_H_
#define COLONNADE_CUDA_SOFTMAX_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "cuda/vector.h"
#include "cuda/walk.h"
#include "program/op.h"

namespace colonnade::cuda {

// Of the logits that one thread has seen: their largest, Σ exp(x − largest), and how many are ahead of the label's.
struct SoftmaxPart {
  float largest;
  int32_t ahead;
  double sum;
};
// What a sample, or several, add to the metrics.
struct SampleMetrics {
  double loss;
  int32_t top1, top5, counts;  // counts: labels ≥ 0
};

// parts[n][part] of the logits part, part + parts_of_sample, … of sample n: neighbouring threads read neighbouring classes.
template <class T>
struct SoftmaxParts {
  int64_t samples, classes, parts_of_sample;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  SoftmaxPart* parts;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * parts_of_sample; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, parts_of_sample), first = i - n * parts_of_sample;
    const T* x = logits + n * logits_stride_n;
    const int32_t label = labels[n * labels_stride];
    const bool has_own = label >= 0 && label < classes;
    const float own = has_own ? float{x[label * logits_stride_k]} : 0.0f;
    SoftmaxPart part = {x[first * logits_stride_k], 0, 0};
    for (int64_t c = first; c < classes; c += parts_of_sample) {
      const float other = x[c * logits_stride_k];
      if (other > part.largest) part.largest = other;
      // A NaN is ahead of all.
      if (has_own && c != label && (!(other <= own) || (other == own && c < label))) ++part.ahead;
    }
    // Where all of the part are −∞ its share of the sum is none.
    for (int64_t c = first; c < classes && part.largest != -INFINITY; c += parts_of_sample) {
      part.sum += expf(x[c * logits_stride_k] - part.largest);
    }
    parts[i] = part;
  }
};
// A sample's parts become one, and its metrics. A label that is no class makes the loss NaN, which the host sees.
template <class T>
struct SoftmaxTotals {
  int64_t samples, classes, parts_of_sample;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  const SoftmaxPart* parts;
  SoftmaxPart* totals;
  SampleMetrics* metrics;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples; }
  COLONNADE_THREAD {
    const SoftmaxPart* of_sample = parts + i * parts_of_sample;
    SoftmaxPart total = {of_sample[0].largest, 0, 0};
    for (int64_t j = 1; j < parts_of_sample; ++j) {
      if (of_sample[j].largest > total.largest) total.largest = of_sample[j].largest;
    }
    for (int64_t j = 0; j < parts_of_sample; ++j) {
      total.sum += of_sample[j].sum * exp(static_cast<double>(of_sample[j].largest) - total.largest);
      total.ahead += of_sample[j].ahead;
    }
    totals[i] = total;
    const int32_t label = labels[i * labels_stride];
    SampleMetrics of = {0, 0, 0, label >= 0 ? 1 : 0};
    if (label >= classes) {
      of.loss = static_cast<double>(NAN);
    } else if (label >= 0) {
      const float own = logits[i * logits_stride_n + label * logits_stride_k];
      of.loss = log(total.sum) + (static_cast<double>(total.largest) - own);
      of.top1 = total.ahead < 1 ? 1 : 0;
      of.top5 = total.ahead < 5 ? 1 : 0;
    }
    metrics[i] = of;
  }
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
// all[i] = Σ of those i, i + parts, …; with one part, as metrics f64.
struct SumMetrics {
  int64_t count_in, parts;
  const SampleMetrics* of;
  SampleMetrics* all;
  double* metrics;  // null but for one part
  COLONNADE_HOST_DEVICE int64_t count() const { return parts; }
  COLONNADE_THREAD {
    SampleMetrics sum = {0, 0, 0, 0};
    for (int64_t n = i; n < count_in; n += parts) {
      sum.loss += of[n].loss;
      sum.top1 += of[n].top1;
      sum.top5 += of[n].top5;
      sum.counts += of[n].counts;
    }
    if (metrics == nullptr) {
      all[i] = sum;
      return;
    }
    metrics[program::kLossSum] = sum.loss;
    metrics[program::kTop1Hits] = sum.top1;
    metrics[program::kTop5Hits] = sum.top5;
    metrics[program::kLabels] = sum.counts;
  }
};

template <class T>
struct SoftmaxBackwardElements {
  int64_t samples, classes;
  const double* scalars;
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
    const float scale = static_cast<float>(1.0 / scalars[program::kLabelCount]);
    const float d = label < 0 ? 0.0f : (p[n * p_stride_n + c * p_stride_k] - (c == label ? 1.0f : 0.0f)) * scale;
    dlogits[n * d_stride_n + c * d_stride_k] = static_cast<T>(d);
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_SOFTMAX_KERNELS_H_
