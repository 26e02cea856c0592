// The body of row_loops.h for vectors of kLanes floats. To be included once by a source that is compiled for their
// instruction set: nothing here may be seen by another one, so all of it is unnamed and nothing of std is used.
#include "cpu/ops/row_loops.h"

namespace colonnade::cpu {
namespace {

// Where kVectors vectors of a plane begin, in x and in y.
template <int kVectors>
struct Places {
  const float* x[kVectors];
  std::int64_t y[kVectors];
};

template <int kWidth, int kOutputs, int kVectors>
COLONNADE_VECTOR_INLINE void AddTaps(const RowConvolution& of, const Places<kVectors>& places, const float* w,
                                     Vector (&sums)[kVectors][kOutputs]) {
  for (std::int64_t c = 0; c < of.inputs; ++c) {
#pragma GCC unroll 1
    for (std::int64_t r = 0; r < of.window_rows; ++r, w += kWidth * kOutputs) {
      const std::int64_t row = c * of.plane + r * of.pitch;
#pragma GCC unroll 8
      for (int s = 0; s < kWidth; ++s) {
        Vector x[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          Load(places.x[v] + row + s, x[v]);
          Keep(x[v]);
        }
#pragma GCC unroll 8
        for (int k = 0; k < kOutputs; ++k) {
          Vector weight = Broadcast(w[s * kOutputs + k]);
          Keep(weight);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) sums[v][k] += x[v] * weight;
        }
      }
    }
  }
}

COLONNADE_VECTOR_INLINE void Finish(const float* bias, int k, bool relu, Vector& sum) {
  if (bias != nullptr) sum += bias[k];
  if (relu) sum = sum > 0.0f ? sum : Vector{};
}

// The outputs of one tile at some places of a plane; `count` floats of each vector are kept.
template <int kWidth, int kOutputs, int kVectors>
void ConvolveTile(const RowConvolution& of, const Places<kVectors>& places, std::int64_t count, const float* w,
                  const float* bias, bool relu, float* y) {
  Vector sums[kVectors][kOutputs] = {};
  AddTaps<kWidth, kOutputs, kVectors>(of, places, w, sums);
  const std::int64_t plane = of.rows * of.columns;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int k = 0; k < kOutputs; ++k) {
      Finish(bias, k, relu, sums[v][k]);
      float* to = y + k * plane + places.y[v];
      if (count == kLanes) {
        Store(sums[v][k], to);
      } else {
        alignas(sizeof(Vector)) float whole[kLanes];
        Store(sums[v][k], whole);
        for (std::int64_t i = 0; i < count; ++i) to[i] = whole[i];
      }
    }
  }
}

// The vectors of a row begin kLanes apart, but for the last, which ends where the row ends.
template <int kVectors>
Places<kVectors> PlacesFrom(const RowConvolution& of, const float* x, std::int64_t first) {
  const std::int64_t in_row = (of.columns + kLanes - 1) / kLanes, last = of.rows * in_row - 1;
  Places<kVectors> places;
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t index = Least(first + v, last), row = index / in_row;
    const std::int64_t latest = of.columns < kLanes ? 0 : of.columns - kLanes;
    const std::int64_t column = Least(index % in_row * kLanes, latest);
    places.x[v] = x + row * of.pitch + column;
    places.y[v] = row * of.columns + column;
  }
  return places;
}

template <int kVectors>
using TileFunction = void (*)(const RowConvolution&, const Places<kVectors>&, std::int64_t, const float*, const float*, bool,
                              float*);

template <int kWidth, int kVectors>
constexpr TileFunction<kVectors> kTiles[] = {
    ConvolveTile<kWidth, 1, kVectors>, ConvolveTile<kWidth, 2, kVectors>,
    ConvolveTile<kWidth, 3, kVectors>, ConvolveTile<kWidth, 4, kVectors>,
#if COLONNADE_ROW_OUTPUTS > 4
    ConvolveTile<kWidth, 5, kVectors>, ConvolveTile<kWidth, 6, kVectors>,
    ConvolveTile<kWidth, 7, kVectors>, ConvolveTile<kWidth, 8, kVectors>,
#endif
};

template <int kWidth>
void ConvolveImage(const RowConvolution& of, std::int64_t tile, const float* x, const float* w, const float* bias, bool relu,
                   float* y) {
  constexpr int kVectors = 2;
  const std::int64_t count = Least(of.columns, kLanes), taps = of.inputs * of.window_rows * kWidth;
  const std::int64_t vectors = of.rows * ((of.columns + kLanes - 1) / kLanes);
  for (std::int64_t first = 0; first < vectors; first += kVectors) {
    const Places<kVectors> places = PlacesFrom<kVectors>(of, x, first);
    for (std::int64_t k = 0; k < of.outputs; k += tile) {
      const std::int64_t outputs = Least(tile, of.outputs - k);
      kTiles<kWidth, kVectors>[outputs - 1](of, places, count, w + k * taps, bias == nullptr ? nullptr : bias + k, relu,
                                            y + k * of.rows * of.columns);
    }
  }
}

void Convolve(const RowConvolution& of, std::int64_t tile, const float* x, const float* w, const float* bias, bool relu,
              float* y) {
  (of.window_columns == 3 ? ConvolveImage<3> : ConvolveImage<5>)(of, tile, x, w, bias, relu, y);
}

// The sums of one input, one row of the window and a tile of outputs.
template <int kWidth, int kOutputs>
void AddTile(const RowConvolution& of, const RowGradient& over, const float* x, const float* dy, float* sums) {
  Vector in[kOutputs][kWidth];
#pragma GCC unroll 8
  for (int k = 0; k < kOutputs; ++k) {
#pragma GCC unroll 8
    for (int s = 0; s < kWidth; ++s) Load(sums + (k * kWidth + s) * kLanes, in[k][s]);
  }
  for (std::int64_t n = 0; n < over.images; ++n) {
    for (std::int64_t p = 0; p < of.rows; ++p) {
      const float *x_row = x + n * over.x_image + p * of.pitch, *dy_row = dy + n * over.dy_image + p * over.dy_pitch;
#pragma GCC unroll 1
      for (std::int64_t q = 0; q < of.columns; q += kLanes) {
        Vector shifted[kWidth];
#pragma GCC unroll 8
        for (int s = 0; s < kWidth; ++s) {
          Load(x_row + q + s, shifted[s]);
          Keep(shifted[s]);
        }
#pragma GCC unroll 8
        for (int k = 0; k < kOutputs; ++k) {
          Vector gradient;
          Load(dy_row + k * over.dy_plane + q, gradient);
          Keep(gradient);
#pragma GCC unroll 8
          for (int s = 0; s < kWidth; ++s) in[k][s] += gradient * shifted[s];
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < kOutputs; ++k) {
#pragma GCC unroll 8
    for (int s = 0; s < kWidth; ++s) Store(in[k][s], sums + (k * kWidth + s) * kLanes);
  }
}

using GradientFunction = void (*)(const RowConvolution&, const RowGradient&, const float*, const float*, float*);
#if COLONNADE_ROW_OUTPUTS > 4
constexpr GradientFunction kGradients3[] = {AddTile<3, 1>, AddTile<3, 2>, AddTile<3, 3>, AddTile<3, 4>,
                                            AddTile<3, 5>, AddTile<3, 6>, AddTile<3, 7>, AddTile<3, 8>};
constexpr GradientFunction kGradients5[] = {AddTile<5, 1>, AddTile<5, 2>, AddTile<5, 3>, AddTile<5, 4>};
constexpr std::int64_t kAccumulators = 24;
#else
constexpr GradientFunction kGradients3[] = {AddTile<3, 1>, AddTile<3, 2>, AddTile<3, 3>};
constexpr GradientFunction kGradients5[] = {AddTile<5, 1>, AddTile<5, 2>};
constexpr std::int64_t kAccumulators = 10;
#endif

void AddGradient(const RowConvolution& of, const RowGradient& over, std::int64_t tile, const float* x, const float* dy,
                 float* sums) {
  const GradientFunction* add = of.window_columns == 3 ? kGradients3 : kGradients5;
  for (std::int64_t k = 0; k < of.outputs; k += tile) {
    const std::int64_t outputs = Least(tile, of.outputs - k);
    for (std::int64_t c = 0; c < of.inputs; ++c) {
      for (std::int64_t r = 0; r < of.window_rows; ++r) {
        add[outputs - 1](of, over, x + c * of.plane + r * of.pitch, dy + k * over.dy_plane, sums);
        sums += outputs * of.window_columns * kLanes;
      }
    }
  }
}

void TakeCells(const float* x, std::int64_t stride, std::int32_t place, std::int64_t begin, std::int64_t end, float* value,
               std::int32_t* places) {
  for (int first = 0; first < kMostLanes; first += kLanes) {
    Vector cells, largest;
    Load(x + first * stride, cells);
    if (stride == 2) {
      Vector more;
      Load(x + first * stride + kLanes, more);
      cells = __builtin_shufflevector(cells, more, COLONNADE_ROW_EVEN_LANES);
    }
    Load(value + first, largest);
    LooseIntegers& known = *reinterpret_cast<LooseIntegers*>(places + first);
    const Integers window = Integers{COLONNADE_LANES_FROM(0)} + first;
    const Integers inside = (window >= static_cast<std::int32_t>(begin)) & (window < static_cast<std::int32_t>(end));
    const Integers takes = ((cells > largest) | (known == kNowhere)) & inside;
    Store(takes ? cells : largest, value + first);
    known = takes ? Integers{} + place : known;
  }
}

void AddRow(const float* row, std::int64_t count, float* sum) {
  constexpr int kVectors = kMostLanes / kLanes;
  Vector in[kVectors];
  for (int v = 0; v < kVectors; ++v) Load(sum + v * kLanes, in[v]);
  for (std::int64_t i = 0; i < count; i += kMostLanes) {
    for (int v = 0; v < kVectors; ++v) {
      Vector more;
      Load(row + i + v * kLanes, more);
      in[v] += more;
    }
  }
  for (int v = 0; v < kVectors; ++v) Store(in[v], sum + v * kLanes);
}

}  // namespace
}  // namespace colonnade::cpu
