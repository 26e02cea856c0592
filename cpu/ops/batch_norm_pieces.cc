#include "cpu/ops/batch_norm_pieces.h"

#include "cpu/ops/element.h"
#include "program/bfloat16.h"
#include "program/math.h"

namespace colonnade::cpu {
namespace {

// Walks the ranges of memory that make up a piece, in about the order of memory. Element i of a range is of channel i % 16
// of its block, or of the block's only one.
class Ranges {
 public:
  Ranges(const Pieces& of, const Piece& piece) : of_(of), piece_(piece), end_(piece.begin) {}

  bool Next() {
    if (++block == piece_.blocks || end_ == piece_.begin) {
      if (end_ == piece_.end) return false;
      const int64_t begin = end_;
      sample_ = piece_.group * of_.samples + begin / of_.pixels;
      pixel_ = begin % of_.pixels;
      end_ = std::min(begin - pixel_ + of_.pixels, piece_.end);
      count_ = end_ - begin;
      block = 0;
    }
    const int64_t at = piece_.first_block + block, width = of_.WidthOf(at);
    offset = (sample_ * of_.channels + at * of_.width) * of_.pixels + pixel_ * width;
    size = count_ * width;
    whole = size / kLanes * kLanes;
    return true;
  }

  int64_t block = -1;  // of the piece's
  int64_t offset = 0, size = 0;
  int64_t whole = 0;  // elements before the last ones, which are fewer than 16

 private:
  const Pieces& of_;
  const Piece& piece_;
  int64_t end_, sample_ = 0, pixel_ = 0, count_ = 0;
};

// Calls element(i, its lane) for each element of a range.
template <class Element>
COLONNADE_INLINE void ForElements(const Ranges& range, const Element& element) {
  for (int64_t i = 0; i < range.whole; i += kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) element(i + l, l);
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
COLONNADE_INLINE void SumGradients(const Pieces& of, const Piece& piece, const LaneNormalisations* lanes, const T* x, T* to,
                                   LaneSums* sums, const GradientOf& gradient_of) {
  for (Ranges range(of, piece); range.Next();) {
    LaneSums s;
    alignas(64) const ByLane<double> mean = lanes[range.block].mean;
    const T* from = x + range.offset;
    T* kept = to == nullptr ? nullptr : to + range.offset;
    const auto gradient = gradient_of(range);
    for (int64_t i = 0; i < range.whole; i += kLanes) {
      alignas(64) float dz[kLanes];
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) dz[l] = gradient(i + l, l);
      if (kept != nullptr) {
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) Put(dz[l], kept[i + l]);
      }
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
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
    for (int64_t l = 0; l < kLanes; ++l) s.second[l] *= lanes[range.block].scale[l];
    sums[range.block].Add(s);
  }
}

}  // namespace

template <class T>
COLONNADE_VECTOR_CLONES void SumPiece(const Pieces& of, const Piece& piece, const T* x, LaneSums* sums) {
  for (Ranges range(of, piece); range.Next();) {
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
COLONNADE_VECTOR_CLONES void SumGradientPiece(const Pieces& of, const Piece& piece, const LaneNormalisations* lanes,
                                              const T* x, const T* dy, LaneSums* sums) {
  SumGradients(of, piece, lanes, x, static_cast<T*>(nullptr), sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
    return [d = dy + range.offset](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA { return float{d[i]}; };
  });
}

template <class T>
COLONNADE_VECTOR_CLONES void SumRecalledPiece(const Pieces& of, const Piece& piece, const LaneNormalisations* lanes,
                                              const Lines* lines_of_blocks, const T* x, const T* dy, LaneSums* sums) {
  SumGradients(of, piece, lanes, x, static_cast<T*>(nullptr), sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
    return [lines = lines_of_blocks[range.block], from = x + range.offset, d = dy + range.offset](int64_t i, int64_t l)
               COLONNADE_INLINE_LAMBDA {
                 const float v = d[i];
                 return Stored<T>(lines.At(from[i], l)) > 0 ? v : 0.0F;
               };
  });
}

template <class T>
COLONNADE_VECTOR_CLONES void SumMaskedPiece(const Pieces& of, const Piece& piece, const LaneNormalisations* lanes,
                                            const T* x, const MaskedGradient<T>& masked, LaneSums* sums) {
  if (masked.more != nullptr) {
    SumGradients(of, piece, lanes, x, masked.dz, sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
      const int64_t at = range.offset;
      return [y = masked.y + at, d = masked.dy + at, more = masked.more + at](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA {
        return Stored<T>(program::ReluGradient(float{y[i]}, float{d[i]} + float{more[i]}));
      };
    });
  } else {
    SumGradients(of, piece, lanes, x, masked.dz, sums, [&](const Ranges& range) COLONNADE_INLINE_LAMBDA {
      const int64_t at = range.offset;
      return [y = masked.y + at, d = masked.dy + at](int64_t i, int64_t) COLONNADE_INLINE_LAMBDA {
        const float v = d[i];
        return program::ReluGradient(float{y[i]}, v);
      };
    });
  }
}

template <class T>
COLONNADE_VECTOR_CLONES void MapPiece(const Pieces& of, const Piece& piece, const Lines* lines_of_blocks, float floor,
                                      const T* x, const T* addend, T* y) {
  for (Ranges range(of, piece); range.Next();) {
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
COLONNADE_VECTOR_CLONES void MapGradientPiece(const Pieces& of, const Piece& piece, const Lines* lines_of_blocks,
                                              const Lines* recalled, const T* x, const T* dy, T* dx) {
  for (Ranges range(of, piece); range.Next();) {
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

#define COLONNADE_PIECES_OF(T)                                                                                             \
  template void SumPiece(const Pieces&, const Piece&, const T*, LaneSums*);                                                \
  template void SumGradientPiece(const Pieces&, const Piece&, const LaneNormalisations*, const T*, const T*, LaneSums*);   \
  template void SumRecalledPiece(const Pieces&, const Piece&, const LaneNormalisations*, const Lines*, const T*, const T*, \
                                 LaneSums*);                                                                               \
  template void SumMaskedPiece(const Pieces&, const Piece&, const LaneNormalisations*, const T*, const MaskedGradient<T>&, \
                               LaneSums*);                                                                                 \
  template void MapPiece(const Pieces&, const Piece&, const Lines*, float, const T*, const T*, T*);                        \
  template void MapGradientPiece(const Pieces&, const Piece&, const Lines*, const Lines*, const T*, const T*, T*);
COLONNADE_PIECES_OF(float)
COLONNADE_PIECES_OF(program::BFloat16)
#undef COLONNADE_PIECES_OF

}  // namespace colonnade::cpu
