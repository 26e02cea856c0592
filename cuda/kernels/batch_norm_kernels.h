// Kernels of batch normalisation over elements; kernels.h says how they are written, program/op.h what they compute.
//
// A small kernel works out the coefficients of each channel in double, and what is done with its elements is in float. The
// mean is two floats of these, so that x − mean keeps its digits where the mean is far larger than the deviation.
#ifndef COLONNADE_CUDA_BATCH_NORM_KERNELS_H_
#define COLONNADE_CUDA_BATCH_NORM_KERNELS_H_

#include <cstdint>

#include "cuda/kernels/batch_norm_sum_kernels.h"
#include "cuda/kernels/image_kernels.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/batch_norm.h"
#include "program/math.h"

namespace colonnade::cuda {

// What the elements of a channel of a group need: [groups, kKinds, channels].
struct Coefficients {
  enum Kind { kMean, kRestOfMean, kFactor, kShift, kSlope, kKinds };
  float* data;
  int64_t channels;
  COLONNADE_HOST_DEVICE float* At(int64_t g, Kind kind, int64_t c) const {
    return data + (g * kKinds + kind) * channels + c;
  }
  COLONNADE_HOST_DEVICE void PutMean(int64_t g, int64_t c, double mean) const {
    const auto rounded = static_cast<float>(mean);
    *At(g, kMean, c) = rounded;
    *At(g, kRestOfMean, c) = static_cast<float>(mean - static_cast<double>(rounded));
  }
  // x − mean.
  template <class T, int lanes>
  COLONNADE_HOST_DEVICE Vector<float, lanes> Centred(int64_t g, int64_t c, const Vector<T, lanes>& x) const {
    const auto mean = Of<lanes>(g, kMean, c), rest = Of<lanes>(g, kRestOfMean, c);
    Vector<float, lanes> centred;
    for (int l = 0; l < lanes; ++l) centred[l] = (float{x[l]} - mean[l]) - rest[l];
    return centred;
  }
  template <int lanes>
  COLONNADE_HOST_DEVICE Vector<float, lanes> Of(int64_t g, Kind kind, int64_t c) const {
    return VectorAt<lanes>(At(g, kind, c), 0);
  }
};

// y = factor·(x − mean) + shift.
struct ForwardCoefficients {
  GroupStatistics statistics;
  ChannelNumbers w, b;
  Coefficients of;
  COLONNADE_HOST_DEVICE int64_t count() const { return statistics.sums.groups * of.channels; }
  COLONNADE_THREAD {
    const int64_t g = Quotient(i, of.channels), c = i - g * of.channels;
    const program::Normalisation normalisation = statistics.At(g, c);
    of.PutMean(g, c, normalisation.mean);
    *of.At(g, Coefficients::kFactor, c) = static_cast<float>(normalisation.scale * w[c]);
    *of.At(g, Coefficients::kShift, c) = b[c];
  }
};
template <class T, int lanes>
struct BatchNormForwardElements {
  int64_t samples;  // of a group
  Image in, out;
  Coefficients of;
  const T* x;
  T* y;
  bool relu;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(out, i);
    const int64_t g = Quotient(at.n, samples);
    const auto centred = of.Centred(g, at.c, VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w)));
    const auto factor = of.Of<lanes>(g, Coefficients::kFactor, at.c), shift = of.Of<lanes>(g, Coefficients::kShift, at.c);
    float values[lanes];
    for (int l = 0; l < lanes; ++l) {
      const float value = centred[l] * factor[l] + shift[l];
      values[l] = relu ? program::Relu(value) : value;
    }
    PutAt(y, out.At(at.n, at.c, at.h, at.w), Rounded<T>(values));
  }
};

// dx = factor·(dy − (shift + slope·(x − mean))).
struct BackwardCoefficients {
  GroupStatistics statistics;
  GroupSums dsums;
  ChannelNumbers w;
  Coefficients of;
  COLONNADE_HOST_DEVICE int64_t count() const { return dsums.groups * of.channels; }
  COLONNADE_THREAD {
    const int64_t g = Quotient(i, of.channels), c = i - g * of.channels;
    const program::Normalisation normalisation = statistics.At(g, c);
    const auto elements = static_cast<double>(statistics.count);
    of.PutMean(g, c, normalisation.mean);
    *of.At(g, Coefficients::kFactor, c) = static_cast<float>(normalisation.scale * w[c]);
    *of.At(g, Coefficients::kShift, c) = static_cast<float>(dsums.At(g, 0, c) / elements);
    *of.At(g, Coefficients::kSlope, c) = static_cast<float>(dsums.At(g, 1, c) / elements * normalisation.scale);
  }
};
template <class T, int lanes>
struct BatchNormBackwardElements {
  int64_t samples;
  Image in, out, back;  // of x, dy and dx
  Coefficients of;
  const T *x, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return back.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(back, i);
    const int64_t g = Quotient(at.n, samples);
    const auto centred = of.Centred(g, at.c, VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w)));
    const auto gradient = VectorAt<lanes>(dy, out.At(at.n, at.c, at.h, at.w));
    const auto factor = of.Of<lanes>(g, Coefficients::kFactor, at.c), shift = of.Of<lanes>(g, Coefficients::kShift, at.c),
               slope = of.Of<lanes>(g, Coefficients::kSlope, at.c);
    float values[lanes];
    for (int l = 0; l < lanes; ++l) values[l] = factor[l] * (gradient[l] - (shift[l] + slope[l] * centred[l]));
    PutAt(dx, back.At(at.n, at.c, at.h, at.w), Rounded<T>(values));
  }
};

struct TrackChannels {
  GroupSums sums;
  int64_t elements;  // that the sums are of
  double momentum;
  ChannelNumbers mean, variance;
  COLONNADE_HOST_DEVICE int64_t count() const { return sums.channels; }
  COLONNADE_THREAD {
    const program::ChannelMoments batch = program::MomentsOf(sums.At(0, 0, i), sums.At(0, 1, i), elements);
    mean[i] = static_cast<float>(program::Tracked(mean[i], batch.mean, momentum));
    variance[i] = static_cast<float>(program::Tracked(variance[i], program::Unbiased(batch.variance, elements), momentum));
  }
};
struct RecallChannels {
  ChannelNumbers mean, variance;
  GroupSums sums;
  COLONNADE_HOST_DEVICE int64_t count() const { return sums.channels; }
  COLONNADE_THREAD {
    const double m = mean[i];
    sums.At(0, 0, i) = m;
    sums.At(0, 1, i) = variance[i] + m * m;
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_BATCH_NORM_KERNELS_H_
