// The sums of batch normalisation; reduction.h says how they are written, program/op.h what they are.
//
// They are in double and always in the same order: blocks add up parts of the positions of a group, a second kernel adds up
// the parts, and a third the groups. A group's sums have the same bits whatever other groups there are.
#ifndef COLONNADE_CUDA_BATCH_NORM_SUM_KERNELS_H_
#define COLONNADE_CUDA_BATCH_NORM_SUM_KERNELS_H_

#include <cstdint>

#include "cuda/kernels/elementwise_kernels.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/batch_norm.h"
#include "program/formulas/math.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {

// Two sums of each channel of each group, f64 [groups,2,channels] of any strides.
struct GroupSums {
  double* data = nullptr;
  int64_t groups = 1, channels = 0;
  int64_t stride_g = 0, stride_sum = 0, stride_c = 0;
  COLONNADE_HOST_DEVICE double& At(int64_t g, int sum, int64_t c) const {
    return data[g * stride_g + sum * stride_sum + c * stride_c];
  }
};
// Σx and Σx², and what they are of.
struct GroupStatistics {
  GroupSums sums;
  int64_t count;
  double epsilon;
  COLONNADE_HOST_DEVICE program::Normalisation At(int64_t g, int64_t c) const {
    return program::NormalisationOf(sums.At(g, 0, c), sums.At(g, 1, c), count, epsilon);
  }
};
// A number of each channel.
struct ChannelNumbers {
  float* data;
  int64_t stride;
  COLONNADE_HOST_DEVICE float& operator[](int64_t c) const { return data[c * stride]; }
};

// A tensor whose positions walk from `data` through channel 0 of group 0.
template <class T>
struct GroupedTensor {
  T* data = nullptr;
  int64_t group_stride = 0, channel_stride = 0;
  COLONNADE_HOST_DEVICE T* Channel(int64_t g, int64_t c) const { return data + g * group_stride + c * channel_stride; }
};

template <int lanes>
struct SumPair {
  double first[lanes], second[lanes];
};

// Terms of PairSums. From(g, c) are those of channels c, c + 1, …; of these Load(positions, j) is what they read at position
// j of a group, and AddTo adds what is made of it to their sums.

// x and x².
template <class T, int lanes>
struct PowerTerms {
  static constexpr int kLanes = lanes;
  GroupedTensor<const T> x;
  using Loaded = Vector<T, lanes>;
  struct Channels {
    const T* x;
    COLONNADE_HOST_DEVICE Loaded Load(const Walk& positions, int64_t j) const {
      return VectorAt<lanes>(x, positions.At(0, j));
    }
    COLONNADE_HOST_DEVICE void AddTo(SumPair<lanes>& sums, const Walk&, int64_t, const Loaded& loaded) const {
      for (int l = 0; l < lanes; ++l) {
        const double value = loaded[l];
        sums.first[l] += value;
        sums.second[l] += value * value;
      }
    }
  };
  COLONNADE_HOST_DEVICE Channels From(int64_t g, int64_t c) const { return {x.Channel(g, c)}; }
};

// dy and dy·x. What is wanted is Σdy·(x − mean), which FinishGradientSums makes of them: to hold the means would take
// 16 registers of a thread. Products of f32 are exact in double, and the difference is as exact as that of Σx² and Σx.
template <class T, int lanes>
struct GradientTerms {
  static constexpr int kLanes = lanes;
  GroupedTensor<const T> x, dy;
  struct Loaded {
    Vector<T, lanes> x, dy;
  };
  struct Channels {
    const T *x, *dy;
    COLONNADE_HOST_DEVICE Loaded Load(const Walk& positions, int64_t j) const {
      return {VectorAt<lanes>(x, positions.At(0, j)), VectorAt<lanes>(dy, positions.At(1, j))};
    }
    COLONNADE_HOST_DEVICE void AddTo(SumPair<lanes>& sums, const Walk&, int64_t, const Loaded& loaded) const {
      for (int l = 0; l < lanes; ++l) {
        const double gradient = loaded.dy[l], value = loaded.x[l];
        sums.first[l] += gradient;
        sums.second[l] += gradient * value;
      }
    }
  };
  COLONNADE_HOST_DEVICE Channels From(int64_t g, int64_t c) const { return {x.Channel(g, c), dy.Channel(g, c)}; }
};

// dz and dz·x, with dz, which it writes, dy plus `more`, unless that is null, where y is above zero, and zero elsewhere.
template <class T, int lanes>
struct MaskedGradientTerms {
  static constexpr int kLanes = lanes;
  GradientTerms<T, lanes> terms;
  GroupedTensor<const T> y, more;
  GroupedTensor<T> dz;
  struct Loaded {
    typename GradientTerms<T, lanes>::Loaded terms;
    Vector<T, lanes> y, more;
  };
  struct Channels {
    typename GradientTerms<T, lanes>::Channels channels;
    const T *y, *more;
    T* dz;
    COLONNADE_HOST_DEVICE Loaded Load(const Walk& positions, int64_t j) const {
      Loaded loaded = {channels.Load(positions, j), VectorAt<lanes>(y, positions.At(2, j)), {}};
      if (more != nullptr) loaded.more = VectorAt<lanes>(more, positions.At(4, j));
      return loaded;
    }
    COLONNADE_HOST_DEVICE void AddTo(SumPair<lanes>& sums, const Walk& positions, int64_t j, Loaded loaded) const {
      float values[lanes];
      for (int l = 0; l < lanes; ++l) values[l] = loaded.terms.dy[l];
      for (int l = 0; l < lanes && more != nullptr; ++l) values[l] += loaded.more[l];
      for (int l = 0; l < lanes; ++l) values[l] = program::ReluGradient(float{loaded.y[l]}, values[l]);
      loaded.terms.dy = Rounded<T>(values);
      PutAt(dz, positions.At(3, j), loaded.terms.dy);
      channels.AddTo(sums, positions, j, loaded.terms);
    }
  };
  COLONNADE_HOST_DEVICE Channels From(int64_t g, int64_t c) const {
    return {terms.From(g, c), y.Channel(g, c), more.data != nullptr ? more.Channel(g, c) : nullptr, dz.Channel(g, c)};
  }
};

// The sums of Terms over the positions of each channel of each group: partial[g][part][·][c]. Blocks are laid out as those
// of ChannelSums, group after group.
template <class Terms>
struct PairSums {
  static constexpr int kLanes = Terms::kLanes;
  Walk positions;  // of one group
  Terms terms;
  int64_t groups, channels, parts;
  int vectors_of_block;
  double* partial;
  using Part = SumPair<kLanes>;
  COLONNADE_HOST_DEVICE int64_t blocks_of_part() const { return program::CeilDiv(channels / kLanes, vectors_of_block); }
  COLONNADE_HOST_DEVICE int64_t blocks() const { return groups * parts * blocks_of_part(); }
  COLONNADE_HOST_DEVICE int columns() const { return vectors_of_block; }
  COLONNADE_HOST_DEVICE int64_t ChannelOf(int64_t block, int column) const {
    return (block % blocks_of_part() * vectors_of_block + column) * kLanes;
  }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    Part part = {};
    const int64_t c = ChannelOf(block, column);
    if (c >= channels) return part;
    const int64_t part_of_all = block / blocks_of_part();
    const Chunk chunk = ChunkOf(positions.count, parts, part_of_all % parts);
    const auto of_channels = terms.From(part_of_all / parts, c);
    int64_t j = chunk.begin + row;
    for (; j + rows < chunk.end; j += 2 * rows) {  // what two positions read is under way at once
      const auto loaded = of_channels.Load(positions, j), next = of_channels.Load(positions, j + rows);
      of_channels.AddTo(part, positions, j, loaded);
      of_channels.AddTo(part, positions, j + rows, next);
    }
    if (j < chunk.end) of_channels.AddTo(part, positions, j, of_channels.Load(positions, j));
    return part;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) {
    Part both;
    for (int l = 0; l < kLanes; ++l) {
      both.first[l] = a.first[l] + b.first[l];
      both.second[l] = a.second[l] + b.second[l];
    }
    return both;
  }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, const Part& part) const {
    const int64_t c = ChannelOf(block, column);
    double* sums = partial + block / blocks_of_part() * 2 * channels;
    for (int l = 0; l < kLanes && c < channels; ++l) {
      sums[c + l] = part.first[l];
      sums[channels + c + l] = part.second[l];
    }
  }
};
// sums[g][·][c] = Σ over parts of partial[g][part][·][c].
struct SumPairParts {
  const double* partial;
  int64_t parts;
  GroupSums sums;
  static constexpr int kColumns = 8;
  using Part = double;
  COLONNADE_HOST_DEVICE int64_t of_group() const { return 2 * sums.channels; }
  COLONNADE_HOST_DEVICE int64_t blocks() const { return program::CeilDiv(sums.groups * of_group(), kColumns); }
  COLONNADE_HOST_DEVICE int columns() const { return kColumns; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    const int64_t i = block * kColumns + column, g = Quotient(i, of_group());
    double sum = 0;
    for (int64_t part = row; part < parts && g < sums.groups; part += rows) {
      sum += partial[(g * parts + part) * of_group() + i - g * of_group()];
    }
    return sum;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a + b; }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, Part sum) const {
    const int64_t i = block * kColumns + column, g = Quotient(i, of_group()), rest = i - g * of_group();
    const int which = rest < sums.channels ? 0 : 1;
    if (g < sums.groups) sums.At(g, which, rest - which * sums.channels) = sum;
  }
};
// totals [1,2,C] = Σ over groups.
struct SumGroups {
  GroupSums sums, totals;
  COLONNADE_HOST_DEVICE int64_t count() const { return sums.channels; }
  COLONNADE_THREAD {
    for (int which = 0; which < 2; ++which) {
      double total = 0;
      for (int64_t g = 0; g < sums.groups; ++g) total += sums.At(g, which, i);
      totals.At(0, which, i) = total;
    }
  }
};
// From Σdy·x to Σdy·x̂, where it stands, and the sums over groups.
struct FinishGradientSums {
  GroupStatistics statistics;
  GroupSums dsums;
  ChannelNumbers dw, db;
  COLONNADE_HOST_DEVICE int64_t count() const { return dsums.channels; }
  COLONNADE_THREAD {
    double total_db = 0, total_dw = 0;
    for (int64_t g = 0; g < dsums.groups; ++g) {
      const program::Normalisation normalisation = statistics.At(g, i);
      double& normalised = dsums.At(g, 1, i);
      normalised = (normalised - normalisation.mean * dsums.At(g, 0, i)) * normalisation.scale;
      total_db += dsums.At(g, 0, i);
      total_dw += normalised;
    }
    dw[i] = static_cast<float>(total_dw);
    db[i] = static_cast<float>(total_db);
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_BATCH_NORM_SUM_KERNELS_H_
