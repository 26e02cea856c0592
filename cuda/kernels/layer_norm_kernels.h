// Kernels of layer normalisation; kernels.h and reduction.h say how they are written, program/op.h what they compute.
//
// Moments and sums of a position are taken in double: a block has a column of threads for each of a few positions, and the
// threads of a column share its channels. Elements are computed in float.
#ifndef COLONNADE_CUDA_LAYER_NORM_KERNELS_H_
#define COLONNADE_CUDA_LAYER_NORM_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "cuda/kernels/batch_norm_sum_kernels.h"
#include "cuda/kernels/image_kernels.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/vector.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {

// Some numbers for each position, of any strides: number k of a position is channel k of an image [n,·,h,w].
struct PositionNumbers {
  Image image;
  float* data = nullptr;
  COLONNADE_HOST_DEVICE float& At(const Pixel& at, int k) const { return data[image.At(at.n, k, at.h, at.w)]; }
};
// Maps x of a position's channels to x̂.
struct PositionNormalisation {
  float mean, rest, rstd;
  COLONNADE_HOST_DEVICE PositionNormalisation(const PositionNumbers& moments, const Pixel& at)
      : mean(moments.At(at, 0)), rest(moments.At(at, 1)), rstd(moments.At(at, 2)) {}
  COLONNADE_HOST_DEVICE float operator()(float x) const { return ((x - mean) - rest) * rstd; }
};

// Lays the columns of a reduction over the positions of an image, and its rows over the channels.
template <int lanes>
struct PositionColumns {
  Image image;
  int positions_of_block;
  COLONNADE_HOST_DEVICE int64_t positions() const { return image.n * image.h * image.w; }
  COLONNADE_HOST_DEVICE int64_t blocks() const { return program::CeilDiv(positions(), positions_of_block); }
  COLONNADE_HOST_DEVICE int64_t PositionOf(int64_t block, int column) const { return block * positions_of_block + column; }
  COLONNADE_HOST_DEVICE bool Has(int64_t position) const { return position < positions(); }
  // Returns channel 0 of the pixel at `position`.
  COLONNADE_HOST_DEVICE Pixel At(int64_t position) const {
    const int64_t row = Quotient(position, image.w), n = Quotient(row, image.h);
    return {n, 0, row - n * image.h, position - row * image.w};
  }
  // Calls f(c) for the first of each vector of channels that thread `row` has.
  template <class F>
  COLONNADE_HOST_DEVICE void ForChannels(int row, int rows, const F& f) const {
    for (int64_t c = int64_t{row} * lanes; c < image.c; c += int64_t{rows} * lanes) f(c);
  }
};

// Mean and Σ(x − mean)² of some channels. A thread makes two passes over its channels; the parts of threads are then merged
// pairwise (Chan, Golub & LeVeque 1979).
struct MomentsPart {
  double count, mean, squares;
};
template <class T, int lanes>
struct LayerNormMoments {
  PositionColumns<lanes> over;
  const T* x;
  double epsilon;
  PositionNumbers moments;
  using Part = MomentsPart;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return over.blocks(); }
  COLONNADE_HOST_DEVICE int columns() const { return over.positions_of_block; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    Part part = {0, 0, 0};
    const int64_t position = over.PositionOf(block, column);
    if (!over.Has(position)) return part;
    const Pixel at = over.At(position);
    double sum = 0;
    over.ForChannels(row, rows, [&](int64_t c) {
      const auto values = VectorAt<lanes>(x, over.image.At(at.n, c, at.h, at.w));
      for (int l = 0; l < lanes; ++l) sum += values[l];
      part.count += lanes;
    });
    part.mean = part.count > 0 ? sum / part.count : 0;
    over.ForChannels(row, rows, [&](int64_t c) {
      const auto values = VectorAt<lanes>(x, over.image.At(at.n, c, at.h, at.w));
      for (int l = 0; l < lanes; ++l) {
        const double difference = values[l] - part.mean;
        part.squares += difference * difference;
      }
    });
    return part;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) {
    const double count = a.count + b.count;
    if (count == 0) return a;
    const double apart = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
  }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, const Part& part) const {
    const int64_t position = over.PositionOf(block, column);
    if (!over.Has(position)) return;
    const Pixel at = over.At(position);
    const auto rounded = static_cast<float>(part.mean);
    moments.At(at, 0) = rounded;
    moments.At(at, 1) = static_cast<float>(part.mean - rounded);
    moments.At(at, 2) = static_cast<float>(1 / sqrt(part.squares / part.count + epsilon));
  }
};

template <class T, int lanes>
struct LayerNormForwardElements {
  Image in, out;
  PositionNumbers moments;
  ChannelNumbers w, b;
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(out, i);
    const PositionNormalisation normalised(moments, at);
    const auto values = VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w));
    float results[lanes];
    for (int l = 0; l < lanes; ++l) results[l] = normalised(values[l]) * w[at.c + l] + b[at.c + l];
    PutAt(y, out.At(at.n, at.c, at.h, at.w), Rounded<T>(results));
  }
};

// The means of g and g·x̂ over the channels of each position, g = w·dy.
struct GradientPart {
  double sum, products;
};
template <class T, int lanes>
struct LayerNormGradientMeans {
  PositionColumns<lanes> over;  // of x
  Image out;                    // of dy
  const T *x, *dy;
  PositionNumbers moments;
  ChannelNumbers w;
  PositionNumbers means;
  using Part = GradientPart;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return over.blocks(); }
  COLONNADE_HOST_DEVICE int columns() const { return over.positions_of_block; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    Part part = {0, 0};
    const int64_t position = over.PositionOf(block, column);
    if (!over.Has(position)) return part;
    const Pixel at = over.At(position);
    const PositionNormalisation normalised(moments, at);
    over.ForChannels(row, rows, [&](int64_t c) {
      const auto values = VectorAt<lanes>(x, over.image.At(at.n, c, at.h, at.w));
      const auto gradients = VectorAt<lanes>(dy, out.At(at.n, c, at.h, at.w));
      for (int l = 0; l < lanes; ++l) {
        const double g = float{w[c + l]} * gradients[l];
        part.sum += g;
        part.products += g * normalised(values[l]);
      }
    });
    return part;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) { return {a.sum + b.sum, a.products + b.products}; }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, const Part& part) const {
    const int64_t position = over.PositionOf(block, column);
    if (!over.Has(position)) return;
    const Pixel at = over.At(position);
    means.At(at, 0) = static_cast<float>(part.sum / static_cast<double>(over.image.c));
    means.At(at, 1) = static_cast<float>(part.products / static_cast<double>(over.image.c));
  }
};

template <class T, int lanes>
struct LayerNormBackwardElements {
  Image in, out, back;  // of x, dy and dx
  PositionNumbers moments, means;
  ChannelNumbers w;
  const T *x, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return back.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(back, i);
    const PositionNormalisation normalised(moments, at);
    const float mean = means.At(at, 0), slope = means.At(at, 1);
    const auto values = VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w));
    const auto gradients = VectorAt<lanes>(dy, out.At(at.n, at.c, at.h, at.w));
    float results[lanes];
    for (int l = 0; l < lanes; ++l) {
      results[l] = normalised.rstd * (w[at.c + l] * gradients[l] - (mean + slope * normalised(values[l])));
    }
    PutAt(dx, back.At(at.n, at.c, at.h, at.w), Rounded<T>(results));
  }
};

// The terms dy and dy·x̂ of PairSums, whose walk goes over the positions of x, dy and the moments.
template <class T, int lanes>
struct LayerNormTerms {
  static constexpr int kLanes = lanes;
  GradientTerms<T, lanes> terms;
  const float* moments;
  int64_t moment_stride;
  using Loaded = typename GradientTerms<T, lanes>::Loaded;
  struct Channels {
    typename GradientTerms<T, lanes>::Channels channels;
    const float* moments;
    int64_t moment_stride;
    COLONNADE_HOST_DEVICE Loaded Load(const Walk& positions, int64_t j) const { return channels.Load(positions, j); }
    COLONNADE_HOST_DEVICE void AddTo(SumPair<lanes>& sums, const Walk& positions, int64_t j, const Loaded& loaded) const {
      const float* moment = moments + positions.At(2, j);
      for (int l = 0; l < lanes; ++l) {
        const double gradient = loaded.dy[l];
        sums.first[l] += gradient;
        sums.second[l] += gradient * (((loaded.x[l] - moment[0]) - moment[moment_stride]) * moment[2 * moment_stride]);
      }
    }
  };
  COLONNADE_HOST_DEVICE Channels From(int64_t g, int64_t c) const { return {terms.From(g, c), moments, moment_stride}; }
};
// Writes the two sums of each channel, rounded to float.
struct PutSumPairs {
  GroupSums sums;
  ChannelNumbers first, second;
  COLONNADE_HOST_DEVICE int64_t count() const { return sums.channels; }
  COLONNADE_THREAD {
    first[i] = static_cast<float>(sums.At(0, 0, i));
    second[i] = static_cast<float>(sums.At(0, 1, i));
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LAYER_NORM_KERNELS_H_
