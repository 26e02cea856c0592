// Kernels of batch normalisation over elements; kernels.h says how they are written, program/op.h what they compute.
//
// A small kernel works out the coefficients of each channel in double, and what is done with its elements is in float. The
// mean is two floats of these, so that x − mean keeps its digits where the mean is far larger than the deviation.
#ifndef COLONNADE_CUDA_BATCH_NORM_KERNELS_H_
#define COLONNADE_CUDA_BATCH_NORM_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "cuda/kernels/batch_norm_sum_kernels.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/batch_norm.h"
#include "program/formulas/math.h"

namespace colonnade::cuda {

// The means of `lanes` channels.
template <int lanes>
struct Means {
  Vector<float, lanes> mean, rest;
  // x − mean.
  template <class T>
  COLONNADE_HOST_DEVICE Vector<float, lanes> Centred(const Vector<T, lanes>& x) const {
    Vector<float, lanes> centred;
    for (int l = 0; l < lanes; ++l) centred[l] = (float{x[l]} - mean[l]) - rest[l];
    return centred;
  }
};

// What the elements of a channel of a group need: [groups, kKinds, channels]. kBias is that of a ReLU that backward recalls.
struct Coefficients {
  enum Kind { kMean, kRestOfMean, kFactor, kShift, kSlope, kBias, kKinds };
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
  template <int lanes>
  COLONNADE_HOST_DEVICE Vector<float, lanes> Of(int64_t g, Kind kind, int64_t c) const {
    return VectorAt<lanes>(At(g, kind, c), 0);
  }
  template <int lanes>
  COLONNADE_HOST_DEVICE Means<lanes> MeansOf(int64_t g, int64_t c) const {
    return {Of<lanes>(g, kMean, c), Of<lanes>(g, kRestOfMean, c)};
  }
};

// factor·(x − mean) + shift, with the same bits in every kernel.
COLONNADE_HOST_DEVICE inline float Affine(float centred, float factor, float shift) {
  return std::fma(centred, factor, shift);
}
// Whether a value is above zero as it is stored.
template <class T>
COLONNADE_HOST_DEVICE inline bool IsStoredAboveZero(float value) {
  return float{static_cast<T>(value)} > 0;
}

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
// Maps an element of a walk over [n,C,…], samples outermost, to the group and the channel whose numbers it needs: each
// channel has `inner` neighbours, 1 where channels lie innermost.
struct GroupedChannels {
  int64_t inner, channels, elements_of_group;
  struct Place {
    int64_t g, c;
  };
  COLONNADE_HOST_DEVICE Place Of(int64_t element) const {
    const int64_t row = inner == 1 ? element : Quotient(element, inner);
    return {Quotient(element, elements_of_group), row - Quotient(row, channels) * channels};
  }
  // Whether elements so far apart, of `count`, always have the same place.
  COLONNADE_HOST_DEVICE bool Repeat(int64_t distance, int64_t count) const {
    return inner == 1 && elements_of_group >= count && distance % channels == 0;
  }
};

template <class T, int lanes>
struct BatchNormForwardElements {
  Walk walk;  // of x, y and what is added
  GroupedChannels places;
  Coefficients of;
  const T* x;
  T* y;
  const T* more;  // what is added, or null
  bool relu;
  struct Loaded {
    Vector<T, lanes> x, more;
  };
  struct Channels {
    Means<lanes> means;
    Vector<float, lanes> factor, shift;
  };
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_HOST_DEVICE bool HaveSameChannels(int64_t distance) const { return places.Repeat(distance * lanes, walk.count); }
  COLONNADE_HOST_DEVICE Channels ChannelsOf(int64_t i) const {
    const auto [g, c] = places.Of(i * lanes);
    return {of.MeansOf<lanes>(g, c), of.Of<lanes>(g, Coefficients::kFactor, c), of.Of<lanes>(g, Coefficients::kShift, c)};
  }
  COLONNADE_HOST_DEVICE Loaded Load(int64_t i) const {
    Loaded loaded = {VectorAt<lanes>(x, walk.At(0, i * lanes)), {}};
    if (more != nullptr) loaded.more = VectorAt<lanes>(more, walk.At(2, i * lanes));
    return loaded;
  }
  COLONNADE_HOST_DEVICE void Put(int64_t i, const Loaded& loaded, const Channels& channels) const {
    const auto centred = channels.means.Centred(loaded.x);
    float values[lanes];
    for (int l = 0; l < lanes; ++l) values[l] = Affine(centred[l], channels.factor[l], channels.shift[l]);
    if (more != nullptr) {
      const auto stored = Rounded<T>(values);
      for (int l = 0; l < lanes; ++l) values[l] = float{stored[l]} + float{loaded.more[l]};
    }
    for (int l = 0; l < lanes && relu; ++l) values[l] = program::Relu(values[l]);
    PutAt(y, walk.At(1, i * lanes), Rounded<T>(values));
  }
};

// dx = factor·(dy − (shift + slope·(x − mean))).
struct BackwardCoefficients {
  GroupStatistics statistics;
  GroupSums dsums;
  ChannelNumbers w, b;  // no b: no ReLU is recalled
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
    if (b.data != nullptr) *of.At(g, Coefficients::kBias, c) = b[c];
  }
};
// dy and dy·x, dy counting as zero where y of a ReLU is zero; `of` is what ForwardCoefficients made.
template <class T, int lanes>
struct RecalledGradientTerms {
  static constexpr int kLanes = lanes;
  GradientTerms<T, lanes> terms;
  Coefficients of;
  using Loaded = typename GradientTerms<T, lanes>::Loaded;
  struct Channels {
    typename GradientTerms<T, lanes>::Channels channels;
    Coefficients of;
    int64_t g, c;
    Vector<float, lanes> factor, shift;
    COLONNADE_HOST_DEVICE Loaded Load(const Walk& positions, int64_t j) const { return channels.Load(positions, j); }
    COLONNADE_HOST_DEVICE void AddTo(SumPair<lanes>& sums, const Walk& positions, int64_t j, Loaded loaded) const {
      const auto centred = of.MeansOf<lanes>(g, c).Centred(loaded.x);
      for (int l = 0; l < lanes; ++l) {
        if (!IsStoredAboveZero<T>(Affine(centred[l], factor[l], shift[l]))) loaded.dy[l] = static_cast<T>(0.0f);
      }
      channels.AddTo(sums, positions, j, loaded);
    }
  };
  COLONNADE_HOST_DEVICE Channels From(int64_t g, int64_t c) const {
    return {terms.From(g, c), of, g, c, of.Of<lanes>(g, Coefficients::kFactor, c), of.Of<lanes>(g, Coefficients::kShift, c)};
  }
};
template <class T, int lanes>
struct BatchNormBackwardElements {
  Walk walk;  // of x, dy and dx
  GroupedChannels places;
  Coefficients of;
  const T *x, *dy;
  T* dx;
  bool recalls;  // dy counts as zero where y of a ReLU is zero
  struct Loaded {
    Vector<T, lanes> x, dy;
  };
  struct Channels {
    Means<lanes> means;
    Vector<float, lanes> factor, shift, slope, bias;
  };
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_HOST_DEVICE bool HaveSameChannels(int64_t distance) const { return places.Repeat(distance * lanes, walk.count); }
  COLONNADE_HOST_DEVICE Channels ChannelsOf(int64_t i) const {
    const auto [g, c] = places.Of(i * lanes);
    Channels channels = {of.MeansOf<lanes>(g, c),
                         of.Of<lanes>(g, Coefficients::kFactor, c),
                         of.Of<lanes>(g, Coefficients::kShift, c),
                         of.Of<lanes>(g, Coefficients::kSlope, c),
                         {}};
    if (recalls) channels.bias = of.Of<lanes>(g, Coefficients::kBias, c);
    return channels;
  }
  COLONNADE_HOST_DEVICE Loaded Load(int64_t i) const {
    return {VectorAt<lanes>(x, walk.At(0, i * lanes)), VectorAt<lanes>(dy, walk.At(1, i * lanes))};
  }
  COLONNADE_HOST_DEVICE void Put(int64_t i, const Loaded& loaded, const Channels& channels) const {
    const auto& [means, factor, shift, slope, bias] = channels;
    const auto centred = means.Centred(loaded.x);
    auto gradient = loaded.dy;
    for (int l = 0; l < lanes && recalls; ++l) {
      if (!IsStoredAboveZero<T>(Affine(centred[l], factor[l], bias[l]))) gradient[l] = static_cast<T>(0.0f);
    }
    float values[lanes];
    for (int l = 0; l < lanes; ++l) values[l] = factor[l] * (gradient[l] - (shift[l] + slope[l] * centred[l]));
    PutAt(dx, walk.At(2, i * lanes), Rounded<T>(values));
  }
};

struct TrackChannels {
  GroupSums sums;
  int64_t elements;  // that the sums are of
  double momentum;
  ChannelNumbers mean, variance;
  const double* gate;  // null: open
  COLONNADE_HOST_DEVICE int64_t count() const { return sums.channels; }
  COLONNADE_THREAD {
    if (gate != nullptr && gate[program::Gate::kIsOpen] == 0) return;
    const program::ChannelMoments batch = program::ComputeMoments(sums.At(0, 0, i), sums.At(0, 1, i), elements);
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

// By channel, the factor of a product's weights and what becomes of its bias, if it has one.
template <class T>
struct NormalisedBiases {
  ChannelNumbers mean, variance, w, b, bias;
  double epsilon;
  int64_t channels;
  float* factors;
  T* folded_bias;
  int64_t stride;  // of folded_bias
  COLONNADE_HOST_DEVICE int64_t count() const { return channels; }
  COLONNADE_THREAD {
    const double factor = program::FoldedFactor(w[i], variance[i], epsilon);
    const double from = bias.data != nullptr ? double{bias[i]} : 0;
    factors[i] = static_cast<float>(factor);
    folded_bias[i * stride] = static_cast<T>(static_cast<float>(b[i] + (from - mean[i]) * factor));
  }
};
// folded = factor·weights, rounded to T.
template <class T, int lanes>
struct NormalisedWeights {
  Walk walk;  // weights, folded, factors repeated over the weights of each channel
  const float *weights, *factors;
  T* folded;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto in = VectorAt<lanes>(weights, walk.At(0, i * lanes));
    const float factor = factors[walk.At(2, i * lanes)];
    float values[lanes];
    for (int l = 0; l < lanes; ++l) values[l] = factor * in[l];
    PutAt(folded, walk.At(1, i * lanes), Rounded<T>(values));
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_BATCH_NORM_KERNELS_H_
