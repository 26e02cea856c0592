// The body of block_loops.h for vectors of kLanes floats, included once by each source that is compiled for an instruction
// set. No other source may see what is in it, so all of it is unnamed and nothing of std is used.
#include "cpu/ops/block_loops.h"
#include "cpu/ops/clones.h"

namespace colonnade::cpu {
namespace {

// Offsets of a vector of a group's channels and of its neighbours before and after; −1 where the group has no neighbour.
struct Neighbours {
  std::int64_t at, before, after;
};
COLONNADE_VECTOR_INLINE Neighbours NeighboursOf(const BlockedPixels& of, std::int64_t block, std::int64_t i,
                                                std::int64_t stride) {
  const std::int64_t at = block * stride + i;
  Neighbours offsets = {at, at - kLanes, at + kLanes};
  if (i % kChannelBlock == 0) offsets.before = block == 0 ? -1 : at - stride + kChannelBlock - kLanes;
  if ((i + kLanes) % kChannelBlock == 0) offsets.after = block + 1 == of.blocks ? -1 : at + stride - kChannelBlock + kLanes;
  return offsets;
}

// Calls body(block, i) for each vector of the pixels; i is its offset in that block's part of them.
template <class Body>
COLONNADE_VECTOR_INLINE void ForVectors(const BlockedPixels& of, const Body& body) {
  for (std::int64_t block = 0; block < of.blocks; ++block) {
    for (std::int64_t i = 0; i < of.pixels * kChannelBlock; i += kLanes) body(block, i);
  }
}

template <class T>
COLONNADE_VECTOR_INLINE Vector LoadOrZero(const T* from, std::int64_t at) {
  Vector value = {};
  if (at >= 0) Load(from + at, value);
  return value;
}

// Returns lanes [j, j + kLanes) of a followed by b.
template <int j>
COLONNADE_VECTOR_INLINE Vector Shifted(const Vector& a, const Vector& b) {
  return __builtin_shufflevector(a, b, COLONNADE_LANES_FROM(j));
}

// Returns for each channel c the sum over channels [c − 2, c + 2].
COLONNADE_VECTOR_INLINE Vector SumOfFive(const Vector& before, const Vector& at, const Vector& after) {
  const Vector two_before = Shifted<kLanes - 2>(before, at), one_before = Shifted<kLanes - 1>(before, at);
  return (two_before + one_before) + (Shifted<1>(at, after) + Shifted<2>(at, after)) + at;
}

// x, with s^(−3/4) and 1/s of each of its channels.
struct Scaled {
  Vector x, power, inverse;
};
template <class T>
COLONNADE_VECTOR_INLINE Scaled ScaledAt(const FiveChannelLrn& lrn, const T* x, const Neighbours& offsets) {
  const Vector at = LoadOrZero(x, offsets.at), before = LoadOrZero(x, offsets.before), after = LoadOrZero(x, offsets.after);
  const Vector s = lrn.k + lrn.alpha_over_size * SumOfFive(before * before, at * at, after * after);
  const Vector root = 1.0F / SquareRoot(s);
  return {at, root * SquareRoot(root), root * root};
}

template <class T>
void LrnForwardOf(const BlockedPixels& of, const FiveChannelLrn& lrn, const T* x, T* y) {
  ForVectors(of, [&](std::int64_t block, std::int64_t i) COLONNADE_INLINE_LAMBDA {
    const Neighbours offsets = NeighboursOf(of, block, i, of.block_stride);
    const Scaled scaled = ScaledAt(lrn, x, offsets);
    Store(scaled.x * scaled.power, y + offsets.at);
  });
}

//   dx_c = dy_c · s_c^(−3/4) − 2·alpha·(3/4)/size · x_c · Σ_{c in j's window} dy_j · x_j · s_j^(−7/4)
template <class T>
void LrnBackwardOf(const BlockedPixels& of, const FiveChannelLrn& lrn, const T* x, const T* dy, float* scratch, T* dx) {
  const std::int64_t packed = of.pixels * kChannelBlock;
  float *terms = scratch, *scaled_dy = scratch + of.blocks * packed;
  ForVectors(of, [&](std::int64_t block, std::int64_t i) COLONNADE_INLINE_LAMBDA {
    const Neighbours offsets = NeighboursOf(of, block, i, of.block_stride);
    const Scaled scaled = ScaledAt(lrn, x, offsets);
    const Vector gradient = LoadOrZero(dy, offsets.at) * scaled.power;
    Store(gradient, scaled_dy + block * packed + i);
    Store(gradient * scaled.inverse * scaled.x, terms + block * packed + i);
  });
  const float factor = 2 * lrn.alpha_over_size * 0.75F;
  ForVectors(of, [&](std::int64_t block, std::int64_t i) COLONNADE_INLINE_LAMBDA {
    const Neighbours term = NeighboursOf(of, block, i, packed);
    const Vector sum = SumOfFive(LoadOrZero(terms, term.before), LoadOrZero(terms, term.at), LoadOrZero(terms, term.after));
    const std::int64_t at = block * of.block_stride + i;
    Store(LoadOrZero(scaled_dy, term.at) - factor * LoadOrZero(x, at) * sum, dx + at);
  });
}

void LrnForward(const BlockedPixels& of, const FiveChannelLrn& lrn, const void* x, void* y) {
  if (of.bf16) {
    LrnForwardOf(of, lrn, static_cast<const std::uint16_t*>(x), static_cast<std::uint16_t*>(y));
  } else {
    LrnForwardOf(of, lrn, static_cast<const float*>(x), static_cast<float*>(y));
  }
}

void LrnBackward(const BlockedPixels& of, const FiveChannelLrn& lrn, const void* x, const void* dy, float* scratch,
                 void* dx) {
  if (of.bf16) {
    LrnBackwardOf(of, lrn, static_cast<const std::uint16_t*>(x), static_cast<const std::uint16_t*>(dy), scratch,
                  static_cast<std::uint16_t*>(dx));
  } else {
    LrnBackwardOf(of, lrn, static_cast<const float*>(x), static_cast<const float*>(dy), scratch, static_cast<float*>(dx));
  }
}

struct Extent {
  std::int64_t begin, end;
};
COLONNADE_VECTOR_INLINE Extent CellsOf(const PoolAxis& axis, std::int64_t window) {
  const std::int64_t first = window * axis.stride - axis.pad;
  return {first < 0 ? 0 : first, Least(first + axis.size, axis.cells)};
}
void TakeMaxima(const BlockPooling& of, std::int64_t planes, const std::uint16_t* x, std::uint16_t* y,
                std::uint8_t* argmax) {
  const PoolAxis &rows = of.rows, &columns = of.columns;
  for (std::int64_t plane = 0; plane < planes; ++plane, x += of.x_plane()) {
    for (std::int64_t p = 0; p < rows.windows; ++p) {
      const Extent in_rows = CellsOf(rows, p);
      for (std::int64_t q = 0; q < columns.windows; ++q) {
        const Extent in_columns = CellsOf(columns, q);
        for (std::int64_t lanes = 0; lanes < kChannelBlock; lanes += kLanes, y += kLanes) {
          Vector largest;
          Load(x + (in_rows.begin * columns.cells + in_columns.begin) * kChannelBlock + lanes, largest);
          const std::int64_t corner = (p * rows.stride - rows.pad) * columns.size + q * columns.stride - columns.pad;
          Integers places = Integers{} + static_cast<std::int32_t>(in_rows.begin * columns.size + in_columns.begin - corner);
          for (std::int64_t h = in_rows.begin; h < in_rows.end; ++h) {
            for (std::int64_t w = in_columns.begin; w < in_columns.end; ++w) {
              Vector cell;
              Load(x + (h * columns.cells + w) * kChannelBlock + lanes, cell);
              const Integers takes = cell > largest;
              largest = takes ? cell : largest;
              places = takes ? Integers{} + static_cast<std::int32_t>(h * columns.size + w - corner) : places;
            }
          }
          Store(largest, y);
          if (argmax == nullptr) continue;
          Store(places, argmax);
          argmax += kLanes;
        }
      }
    }
  }
}

// Adds the gradients of a row of windows to a row of cells. `place` is the place of the row's first cell in a window.
COLONNADE_VECTOR_INLINE void AddGradients(const PoolAxis& columns, std::int64_t place, const std::uint8_t* argmax,
                                          const std::uint16_t* dy, float* sums) {
  for (std::int64_t q = 0; q < columns.windows; ++q) {
    const Extent cells = CellsOf(columns, q);
    const std::int64_t first = q * columns.stride - columns.pad;
    for (std::int64_t lanes = q * kChannelBlock; lanes < (q + 1) * kChannelBlock; lanes += kLanes) {
      Vector gradient;
      Load(dy + lanes, gradient);
      Integers maximum;
      Load(argmax + lanes, maximum);
      for (std::int64_t w = cells.begin; w < cells.end; ++w) {
        float* to = sums + w * kChannelBlock + lanes % kChannelBlock;
        Vector sum;
        Load(to, sum);
        sum += maximum == static_cast<std::int32_t>(place + w - first) ? gradient : Vector{};
        Store(sum, to);
      }
    }
  }
}

void GiveGradients(const BlockPooling& of, std::int64_t planes, const std::uint8_t* argmax, const std::uint16_t* dy,
                   float* sums, std::uint16_t* dx) {
  const PoolAxis &rows = of.rows, &columns = of.columns;
  const std::int64_t in_row = columns.cells * kChannelBlock, out_row = columns.windows * kChannelBlock;
  for (std::int64_t plane = 0; plane < planes; ++plane, argmax += of.y_plane(), dy += of.y_plane()) {
    std::int64_t first = 0;  // of the windows that reach row h
    for (std::int64_t h = 0; h < rows.cells; ++h, dx += in_row) {
      for (std::int64_t i = 0; i < in_row; i += kLanes) Store(Vector{}, sums + i);
      while (first < rows.windows && CellsOf(rows, first).end <= h) ++first;
      for (std::int64_t p = first; p < rows.windows && CellsOf(rows, p).begin <= h; ++p) {
        const std::int64_t place = (h + rows.pad - p * rows.stride) * columns.size;
        AddGradients(columns, place, argmax + p * out_row, dy + p * out_row, sums);
      }
      for (std::int64_t i = 0; i < in_row; i += kLanes) {
        Vector sum;
        Load(sums + i, sum);
        Store(sum, dx + i);
      }
    }
  }
}

}  // namespace
}  // namespace colonnade::cpu
