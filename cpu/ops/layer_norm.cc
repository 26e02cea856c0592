#include "cpu/ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

using program::CeilDiv;

namespace {

// Dense tensors [n,C,…] of one layout, in tiles of rows of 16 neighbours in memory: the channels of one position where these
// are neighbours, as in blocked images and matrices; else 16 positions, and a row for each channel. Lanes that a tile has
// beyond the tensor are zeros.
struct NormTiles {
  int64_t samples, channels, positions;
  bool of_channels;  // lanes are channels
  int64_t rows, tiles_of_sample, ranges;

  explicit NormTiles(const View& x)
      : samples(x.shape[0]),
        channels(x.shape[1]),
        positions(program::ElementCount(x.shape) / std::max<int64_t>(x.shape[0] * x.shape[1], 1)),
        of_channels(x.kind == View::Kind::kBlocked || positions == 1),
        rows(of_channels ? CeilDiv(channels, kChannelBlock) : channels),
        tiles_of_sample(of_channels ? positions : CeilDiv(positions, kChannelBlock)),
        ranges(std::clamp<int64_t>(count() * elements() / kRangeElements, 1, std::clamp<int64_t>(count(), 1, kMostRanges))) {
  }

  int64_t count() const { return samples * tiles_of_sample; }
  int64_t elements() const { return rows * kChannelBlock; }
  // The first position of a tile in its sample, and how many it has.
  int64_t FirstOf(int64_t tile) const { return tile % tiles_of_sample * (of_channels ? 1 : kChannelBlock); }
  int64_t PositionsOf(int64_t tile) const { return of_channels ? 1 : std::min(kChannelBlock, positions - FirstOf(tile)); }
  // Lanes of a row that are in the tensor, and where they lie.
  int64_t LanesOf(int64_t tile, int64_t row) const {
    return of_channels ? std::min(kChannelBlock, channels - row * kChannelBlock) : PositionsOf(tile);
  }
  int64_t OffsetOf(int64_t tile, int64_t row) const {
    const int64_t sample = tile / tiles_of_sample * channels * positions, first = FirstOf(tile);
    return sample + (of_channels ? (row * positions + first) * kChannelBlock : row * positions + first);
  }

 private:
  static constexpr int64_t kRangeElements = 16384, kMostRanges = 64;
};

template <class T>
void ReadTile(const NormTiles& of, int64_t tile, const T* from, float* to) {
  for (int64_t r = 0; r < of.rows; ++r) {
    const T* row = from + of.OffsetOf(tile, r);
    const int64_t lanes = of.LanesOf(tile, r);
    for (int64_t l = 0; l < lanes; ++l) to[r * kChannelBlock + l] = row[l];
    for (int64_t l = lanes; l < kChannelBlock; ++l) to[r * kChannelBlock + l] = 0;
  }
}

template <class T>
void WriteTile(const NormTiles& of, int64_t tile, const float* from, T* to) {
  for (int64_t r = 0; r < of.rows; ++r) {
    T* row = to + of.OffsetOf(tile, r);
    for (int64_t l = 0; l < of.LanesOf(tile, r); ++l) Put(from[r * kChannelBlock + l], row[l]);
  }
}

// A number of each channel, where a tile has that channel.
void SpreadChannels(const NormTiles& of, const float* channels, float* tile) {
  for (int64_t i = 0; i < of.elements(); ++i) {
    const int64_t c = of.of_channels ? i : i / kChannelBlock;
    tile[i] = c < of.channels ? channels[c] : 0;
  }
}

// Mean and 1/deviation of the position of each lane.
struct TileMoments {
  alignas(64) double mean[kChannelBlock] = {};
  alignas(64) float rstd[kChannelBlock] = {};
};
struct TileSums {
  alignas(64) double of[kChannelBlock] = {};

  // From sums of lanes to means over the channels of their positions.
  void Finish(const NormTiles& tiles) {
    double sum = 0;
    for (double lane : of) sum += lane;
    for (double& lane : of) lane = (tiles.of_channels ? sum : lane) / static_cast<double>(tiles.channels);
  }
};

void ReadMoments(const NormTiles& of, int64_t tile, const float* moments, TileMoments& to) {
  const float* first = moments + tile / of.tiles_of_sample * 3 * of.positions + of.FirstOf(tile);
  for (int64_t l = 0; l < kChannelBlock; ++l) {
    const int64_t at = of.of_channels ? 0 : l;
    const bool is_there = at < of.PositionsOf(tile);
    to.mean[l] = is_there ? double{first[at]} + first[of.positions + at] : 0;
    to.rstd[l] = is_there ? first[2 * of.positions + at] : 0;
  }
}

void WriteMoments(const NormTiles& of, int64_t tile, const TileMoments& from, float* moments) {
  float* first = moments + tile / of.tiles_of_sample * 3 * of.positions + of.FirstOf(tile);
  for (int64_t at = 0; at < of.PositionsOf(tile); ++at) {
    const auto rounded = static_cast<float>(from.mean[at]);
    first[at] = rounded;
    first[of.positions + at] = static_cast<float>(from.mean[at] - rounded);
    first[2 * of.positions + at] = from.rstd[at];
  }
}

// What the loops below do to the `size` elements of a tile.
COLONNADE_VECTOR_CLONES
void AddUp(const float* a, int64_t size, TileSums& sums) {
  for (int64_t i = 0; i < size; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) sums.of[l] += a[i + l];
  }
}

COLONNADE_VECTOR_CLONES
void AddUpProducts(const float* a, const float* b, int64_t size, TileSums& sums) {
  for (int64_t i = 0; i < size; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) sums.of[l] += double{a[i + l]} * b[i + l];
  }
}

// x − mean
COLONNADE_VECTOR_CLONES
void Centre(const TileMoments& moments, int64_t size, float* x) {
  for (int64_t i = 0; i < size; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) x[i + l] = static_cast<float>(x[i + l] - moments.mean[l]);
  }
}

// (x − mean)·rstd of what is centred
COLONNADE_VECTOR_CLONES
void Scale(const TileMoments& moments, int64_t size, float* x) {
  for (int64_t i = 0; i < size; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) x[i + l] *= moments.rstd[l];
  }
}

// x·w + b
COLONNADE_VECTOR_CLONES
void MultiplyAndAdd(const float* w, const float* b, int64_t size, float* x) {
  for (int64_t i = 0; i < size; ++i) x[i] = x[i] * w[i] + b[i];
}

COLONNADE_VECTOR_CLONES
void MultiplyBy(const float* w, int64_t size, float* x) {
  for (int64_t i = 0; i < size; ++i) x[i] *= w[i];
}

// rstd·(g − (mean of g + x̂·mean of g·x̂))
COLONNADE_VECTOR_CLONES
void ToGradient(const TileMoments& moments, const TileSums& mean, const TileSums& mean_of_products, const float* x,
                int64_t size, float* g) {
  alignas(64) float means[kChannelBlock], slopes[kChannelBlock];
  for (int64_t l = 0; l < kChannelBlock; ++l) {
    means[l] = static_cast<float>(mean.of[l]);
    slopes[l] = static_cast<float>(mean_of_products.of[l]);
  }
  for (int64_t i = 0; i < size; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) {
      g[i + l] = moments.rstd[l] * (g[i + l] - (means[l] + x[i + l] * slopes[l]));
    }
  }
}

// dw += dy·x̂ and db += dy
COLONNADE_VECTOR_CLONES
void AddToWeights(const float* x, const float* dy, int64_t size, double* dw, double* db) {
  for (int64_t i = 0; i < size; ++i) {
    dw[i] += double{dy[i]} * x[i];
    db[i] += dy[i];
  }
}

void ForwardTile(const NormTiles& of, double epsilon, const float* w, const float* b, TileMoments& moments, float* x) {
  const int64_t size = of.elements();
  TileSums sums, squares;
  AddUp(x, size, sums);
  sums.Finish(of);
  std::copy_n(sums.of, kChannelBlock, moments.mean);
  Centre(moments, size, x);
  if (of.of_channels) std::fill(x + of.channels, x + size, 0.0f);
  AddUpProducts(x, x, size, squares);
  squares.Finish(of);
  for (int64_t l = 0; l < kChannelBlock; ++l) moments.rstd[l] = static_cast<float>(1 / std::sqrt(squares.of[l] + epsilon));
  Scale(moments, size, x);
  MultiplyAndAdd(w, b, size, x);
}

// dy becomes dx; x becomes x̂. Lanes beyond the channels have no weight.
void BackwardTile(const NormTiles& of, const TileMoments& moments, const float* w, float* x, float* dy) {
  const int64_t size = of.elements();
  TileSums sums, products;
  Centre(moments, size, x);
  Scale(moments, size, x);
  MultiplyBy(w, size, dy);
  AddUp(dy, size, sums);
  sums.Finish(of);
  AddUpProducts(dy, x, size, products);
  products.Finish(of);
  ToGradient(moments, sums, products, x, size, dy);
}

// The sums of a channel in all ranges, `stride` doubles apart, in their order.
double SumOfRanges(const NormTiles& of, const double* first_range, int64_t stride, int64_t channel) {
  const int64_t lanes = of.of_channels ? 1 : kChannelBlock;
  double sum = 0;
  for (int64_t range = 0; range < of.ranges; ++range) {
    for (int64_t l = 0; l < lanes; ++l) sum += first_range[range * stride + channel * lanes + l];
  }
  return sum;
}

// Calls body(range, its first tile, the end of them) for each range of the tiles.
template <class Body>
void ForRangesOfTiles(const NormTiles& of, int threads, const Body& body) {
  ParallelFor(threads, of.ranges, [&](int64_t begin, int64_t end) {
    for (int64_t range = begin; range < end; ++range) {
      body(range, of.count() * range / of.ranges, of.count() * (range + 1) / of.ranges);
    }
  });
}

template <class T>
int64_t TileBytes(const NormTiles& tiles, int64_t count) {
  return count * tiles.elements() * static_cast<int64_t>(sizeof(T));
}

}  // namespace

PreparedKernel Prepare(const program::LayerNormForward& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const NormTiles tiles(context.view(0));
    return MakeKernel(
        [op, tiles, context](const RunArguments& run) {
          auto* w = reinterpret_cast<float*>(run.workspace);
          float *b = w + tiles.elements(), *scratch = b + tiles.elements();
          SpreadChannels(tiles, DataOf<const float>(run, context, 1), w);
          SpreadChannels(tiles, DataOf<const float>(run, context, 2), b);
          ForRangesOfTiles(tiles, context.threads, [&](int64_t range, int64_t begin, int64_t end) {
            float* x = scratch + range * tiles.elements();
            for (int64_t tile = begin; tile < end; ++tile) {
              TileMoments moments;
              ReadTile(tiles, tile, DataOf<const T>(run, context, 0), x);
              ForwardTile(tiles, op.epsilon, w, b, moments, x);
              WriteTile(tiles, tile, x, DataOf<T>(run, context, 3));
              WriteMoments(tiles, tile, moments, DataOf<float>(run, context, 4));
            }
          });
          return absl::OkStatus();
        },
        TileBytes<float>(tiles, 2 + tiles.ranges));
  });
}

PreparedKernel Prepare(const program::LayerNormBackwardData&, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, []<class T>(T, const TaskContext& context) {
    const NormTiles tiles(context.view(0));
    return MakeKernel(
        [tiles, context](const RunArguments& run) {
          auto* w = reinterpret_cast<float*>(run.workspace);
          SpreadChannels(tiles, DataOf<const float>(run, context, 3), w);
          ForRangesOfTiles(tiles, context.threads, [&](int64_t range, int64_t begin, int64_t end) {
            float *x = w + (1 + 2 * range) * tiles.elements(), *dy = x + tiles.elements();
            for (int64_t tile = begin; tile < end; ++tile) {
              TileMoments moments;
              ReadTile(tiles, tile, DataOf<const T>(run, context, 0), x);
              ReadTile(tiles, tile, DataOf<const T>(run, context, 1), dy);
              ReadMoments(tiles, tile, DataOf<const float>(run, context, 2), moments);
              BackwardTile(tiles, moments, w, x, dy);
              WriteTile(tiles, tile, dy, DataOf<T>(run, context, 4));
            }
          });
          return absl::OkStatus();
        },
        TileBytes<float>(tiles, 1 + 2 * tiles.ranges));
  });
}

PreparedKernel Prepare(const program::LayerNormBackwardWeights&, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, []<class T>(T, const TaskContext& context) {
    const NormTiles tiles(context.view(0));
    const int64_t size = tiles.elements();
    return MakeKernel(
        [tiles, size, context](const RunArguments& run) {
          auto* sums = reinterpret_cast<double*>(run.workspace);  // dw and db of each range
          auto* scratch = reinterpret_cast<float*>(sums + 2 * size * tiles.ranges);
          ForRangesOfTiles(tiles, context.threads, [&](int64_t range, int64_t begin, int64_t end) {
            double *dw = sums + 2 * size * range, *db = dw + size;
            float *x = scratch + 2 * size * range, *dy = x + size;
            std::fill_n(dw, 2 * size, 0.0);
            for (int64_t tile = begin; tile < end; ++tile) {
              TileMoments moments;
              ReadTile(tiles, tile, DataOf<const T>(run, context, 0), x);
              ReadTile(tiles, tile, DataOf<const T>(run, context, 1), dy);
              ReadMoments(tiles, tile, DataOf<const float>(run, context, 2), moments);
              Centre(moments, size, x);
              Scale(moments, size, x);
              AddToWeights(x, dy, size, dw, db);
            }
          });
          float *dw = DataOf<float>(run, context, 3), *db = DataOf<float>(run, context, 4);
          for (int64_t c = 0; c < tiles.channels; ++c) {
            dw[c] = static_cast<float>(SumOfRanges(tiles, sums, 2 * size, c));
            db[c] = static_cast<float>(SumOfRanges(tiles, sums + size, 2 * size, c));
          }
          return absl::OkStatus();
        },
        TileBytes<double>(tiles, 2 * tiles.ranges) + TileBytes<float>(tiles, 2 * tiles.ranges));
  });
}

}  // namespace colonnade::cpu
