#include "cpu/ops/batch_norm_tiles.h"

#include "cpu/ops/element.h"
#include "program/formulas/bfloat16.h"
#include "program/formulas/math.h"

namespace colonnade::cpu {
namespace {

// Walks the ranges of memory that make up a tile, in about the order of memory. Element i of a range is of channel i % 16
// of its block, or of the block's only one.
class Ranges {
 public:
  Ranges(const ChannelTiles& of, const ChannelTile& tile) : of_(of), tile_(tile), end_(tile.begin) {}

  bool Next() {
    if (++block == tile_.blocks || end_ == tile_.begin) {
      if (end_ == tile_.end) return false;
      const int64_t begin = end_;
      sample_ = tile_.group * of_.samples + begin / of_.pixels;
      pixel_ = begin % of_.pixels;
      end_ = std::min(begin - pixel_ + of_.pixels, tile_.end);
      count_ = end_ - begin;
      block = 0;
    }
    const int64_t at = tile_.first_block + block, width = of_.WidthOf(at);
    offset = (sample_ * of_.channels + at * of_.width) * of_.pixels + pixel_ * width;
    size = count_ * width;
    whole = size / kChannelBlock * kChannelBlock;
    return true;
  }

  int64_t block = -1;  // of the tile's
  int64_t offset = 0, size = 0;
  int64_t whole = 0;  // elements before the last ones, which are fewer than 16

 private:
  const ChannelTiles& of_;
  const ChannelTile& tile_;
  int64_t end_, sample_ = 0, pixel_ = 0, count_ = 0;
};

// Calls element(i, its lane) for each element of a range.
template <class Element>
COLONNADE_INLINE void ForElements(const Ranges& range, const Element& element) {
  for (int64_t i = 0; i < range.whole; i += kChannelBlock) {
#pragma omp simd
    for (int64_t l = 0; l < kChannelBlock; ++l) element(i + l, l);
  }
  for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) element(i, l);
}

// As a tensor of T holds it.
template <class T>
COLONNADE_INLINE float Stored(float value) {
  T stored;
  Put(value, stored);
  return float{stored};
}

// Σdz and Σdz·x̂ of what gradient_of(range)(i, lane) gives as dz, which `to` gets unless it is null. Each is a loop of its
// own, so that all are vectors.
template <class T, class GradientOf>
COLONNADE_INLINE void SumGradients(const ChannelTiles& of, const ChannelTile& tile, const LaneNormalisations* lanes,
                                   const T* x, T* to, LaneSums* sums, const GradientOf& gradient_of) {
  for (Ranges range(of, tile); range.Next();) {
    LaneSums s;
    alignas(64) const ByLane<double> mean = lanes[range.block].mean;
    const T* from = x + range.offset;
    T* kept = to == nullptr ? nullptr : to + range.offset;
    const auto gradient = gradient_of(range);
    for (int64_t i = 0; i < range.whole; i += kChannelBlock) {
      alignas(64) float dz[kChannelBlock];
#pragma omp simd
      for (int64_t l = 0; l < kChannelBlock; ++l) dz[l] = gradient(i + l, l);
      if (kept != nullptr) {
#pragma omp simd
        for (int64_t l = 0; l < kChannelBlock; ++l) Put(dz[l], kept[i + l]);
      }
#pragma omp simd
      for (int64_t l = 0; l < kChannelBlock; ++l) {
        const double v = dz[l];
        s.first[l] += v;
        s.second[l] += v * (float{from[i + l]} - mean[l]);
      }
    }
    for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) {
      const float dz = gradient(i, l);
      if (kept != nullptr) Put(dz, kept[i]);
      const double v = dz;
      s.first[l] += v;
      s.second[l] += v * (float{from[i]} - mean[l]);
    }
    for (int64_t l = 0; l < kChannelBlock; ++l) s.second[l] *= lanes[range.block].scale[l];
    sums[range.block].Add(s);
  }
}

}  // namespace

template <class T>
COLONNADE_VECTOR_CLONES void SumTile(const ChannelTiles& of, const ChannelTile& tile, const T* x, LaneSums* sums) {
  for (Ranges range(of, tile); range.Next();) {
    LaneSums s;
    const T* from = x + range.offset;
    ForElements(range, [&](int64_t i, int64_t l) COLONNADE_INLINE_LAMBDA {
      const double v = float{from[i]};
      s.first[l] += v;
      s.second[l] += v * v;
    });
    sums[range.block].Add(s);
  }
}

template <class T>
COLONNADE_VECTOR_CLONES void SumGradientTile(const ChannelTiles& of, const ChannelTile& tile,
                                             const LaneNormalisations* lanes, const T* x, const T* dy, LaneSums* sums) {
  SumGradients(of, tile, lanes, x, static_cast<T*>(nullptr), sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
    return [d = dy + range.offset](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA { return float{d[i]}; };
  });
}

template <class T>
COLONNADE_VECTOR_CLONES void SumRecalledTile(const ChannelTiles& of, const ChannelTile& tile,
                                             const LaneNormalisations* lanes, const Lines* lines_of_blocks, const T* x,
                                             const T* dy, LaneSums* sums) {
  SumGradients(of, tile, lanes, x, static_cast<T*>(nullptr), sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
    return [lines = lines_of_blocks[range.block], from = x + range.offset, d = dy + range.offset](int64_t i, int64_t l)
               COLONNADE_INLINE_LAMBDA {
                 const float v = d[i];
                 return Stored<T>(lines.At(from[i], l)) > 0 ? v : 0.0F;
               };
  });
}

template <class T>
COLONNADE_VECTOR_CLONES void SumMaskedTile(const ChannelTiles& of, const ChannelTile& tile, const LaneNormalisations* lanes,
                                           const T* x, const MaskedGradient<T>& masked, LaneSums* sums) {
  if (masked.more != nullptr) {
    SumGradients(of, tile, lanes, x, masked.dz, sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
      const int64_t at = range.offset;
      return [y = masked.y + at, d = masked.dy + at, more = masked.more + at](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA {
        return Stored<T>(program::ReluGradient(float{y[i]}, float{d[i]} + float{more[i]}));
      };
    });
  } else {
    SumGradients(of, tile, lanes, x, masked.dz, sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
      const int64_t at = range.offset;
      return [y = masked.y + at, d = masked.dy + at](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA {
        const float v = d[i];
        return program::ReluGradient(float{y[i]}, v);
      };
    });
  }
}

template <class T>
COLONNADE_VECTOR_CLONES void MapTile(const ChannelTiles& of, const ChannelTile& tile, const Lines* lines_of_blocks,
                                     float floor, const T* x, const T* addend, T* y) {
  for (Ranges range(of, tile); range.Next();) {
    const Lines lines = lines_of_blocks[range.block];
    const T* __restrict from = x + range.offset;
    T* __restrict to = y + range.offset;
    if (addend == nullptr) {
      ForElements(range, [&](int64_t i, int64_t l) COLONNADE_INLINE_LAMBDA {
        const float v = lines.At(from[i], l);
        Put(v < floor ? floor : v, to[i]);
      });
      continue;
    }
    const T* __restrict more = addend + range.offset;
    ForElements(range, [&](int64_t i, int64_t l) COLONNADE_INLINE_LAMBDA {
      const float v = Stored<T>(lines.At(from[i], l)) + float{more[i]};
      Put(v < floor ? floor : v, to[i]);
    });
  }
}

template <class T>
COLONNADE_VECTOR_CLONES void MapGradientTile(const ChannelTiles& of, const ChannelTile& tile, const Lines* lines_of_blocks,
                                             const Lines* recalled, const T* x, const T* dy, T* dx) {
  for (Ranges range(of, tile); range.Next();) {
    const Lines lines = lines_of_blocks[range.block];
    const T* __restrict from = x + range.offset, * __restrict d = dy + range.offset;
    T* __restrict to = dx + range.offset;
    if (recalled == nullptr) {
      ForElements(range, [&](int64_t i, int64_t l)
                             COLONNADE_INLINE_LAMBDA { Put((lines.At(from[i], l) + float{d[i]}) * lines.scale[l], to[i]); });
      continue;
    }
    const Lines forward = recalled[range.block];
    ForElements(range, [&](int64_t i, int64_t l) COLONNADE_INLINE_LAMBDA {
      const float v = d[i], counts = Stored<T>(forward.At(from[i], l)) > 0 ? v : 0.0F;
      Put((lines.At(from[i], l) + counts) * lines.scale[l], to[i]);
    });
  }
}

#define COLONNADE_TILES_OF(T)                                                                                               \
  template void SumTile(const ChannelTiles&, const ChannelTile&, const T*, LaneSums*);                                      \
  template void SumGradientTile(const ChannelTiles&, const ChannelTile&, const LaneNormalisations*, const T*, const T*,     \
                                LaneSums*);                                                                                 \
  template void SumRecalledTile(const ChannelTiles&, const ChannelTile&, const LaneNormalisations*, const Lines*, const T*, \
                                const T*, LaneSums*);                                                                       \
  template void SumMaskedTile(const ChannelTiles&, const ChannelTile&, const LaneNormalisations*, const T*,                 \
                              const MaskedGradient<T>&, LaneSums*);                                                         \
  template void MapTile(const ChannelTiles&, const ChannelTile&, const Lines*, float, const T*, const T*, T*);              \
  template void MapGradientTile(const ChannelTiles&, const ChannelTile&, const Lines*, const Lines*, const T*, const T*, T*);
COLONNADE_TILES_OF(float)
COLONNADE_TILES_OF(program::BFloat16)
#undef COLONNADE_TILES_OF

}  // namespace colonnade::cpu
