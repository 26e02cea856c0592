// The body of winograd_loops.h for vectors of kLanes floats. To be included once by a source that is compiled for their
// instruction set (vectors.h). It is long since all that works on these vectors has to be compiled together:
// transformations, products, sums, and what is fetched meanwhile.
#include "cpu/ops/winograd_loops.h"

namespace colonnade::cpu {
namespace {

// to = Bᵀ d: row p has the coefficients of Π (x - other point) over the other finite points.
COLONNADE_VECTOR_INLINE void TransformPatch(const Vector (&d)[6], Vector (&to)[6]) {
  const Vector a = d[4] - 4.0f * d[2], b = d[3] - 4.0f * d[1], c = d[4] - d[2], e = 2.0f * (d[3] - d[1]);
  to[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
  to[1] = a + b;
  to[2] = a - b;
  to[3] = c + e;
  to[4] = c - e;
  to[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
}
COLONNADE_VECTOR_INLINE void TransformPatch(const Vector (&d)[8], Vector (&to)[8]) {
  const Vector one_even = d[6] - 4.25f * d[4] + d[2], one_odd = d[5] - 4.25f * d[3] + d[1];
  const Vector two_even = d[6] - 1.25f * d[4] + 0.25f * d[2], two_odd = 2.0f * d[5] - 2.5f * d[3] + 0.5f * d[1];
  const Vector half_even = d[6] - 5.0f * d[4] + 4.0f * d[2], half_odd = 0.5f * d[5] - 2.5f * d[3] + 2.0f * d[1];
  to[0] = d[6] - d[0] + 5.25f * (d[2] - d[4]);
  to[1] = one_even + one_odd;
  to[2] = one_even - one_odd;
  to[3] = two_even + two_odd;
  to[4] = two_even - two_odd;
  to[5] = half_even + half_odd;
  to[6] = half_even - half_odd;
  to[7] = d[7] - d[1] + 5.25f * (d[3] - d[5]);
}

// to = A d: the values at the points of the polynomial with the coefficients d.
template <int kCount, int kSide>
COLONNADE_VECTOR_INLINE void TransformTile(const Vector (&d)[kCount], Vector (&to)[kSide]) {
  Vector even = d[0], odd = d[1], far_even = d[0], far_odd = 2.0f * d[1], half_even = d[0], half_odd = 0.5f * d[1];
#pragma GCC unroll 4
  for (int i = 2; i < kCount; ++i) {
    const bool is_even = i % 2 == 0;
    (is_even ? even : odd) += d[i];
    (is_even ? far_even : far_odd) += static_cast<float>(1 << i) * d[i];
    (is_even ? half_even : half_odd) += 1.0f / static_cast<float>(1 << i) * d[i];
  }
  to[0] = d[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = far_even + far_odd;
  to[4] = far_even - far_odd;
  if constexpr (kSide == 8) {
    to[5] = half_even + half_odd;
    to[6] = half_even - half_odd;
  }
  to[kSide - 1] = d[kCount - 1];
}

// to = Aᵀ m.
template <int kCount, int kSide>
COLONNADE_VECTOR_INLINE void TransformProducts(const Vector (&m)[kSide], Vector (&to)[kCount]) {
  const Vector even = m[1] + m[2], odd = m[1] - m[2], far_even = m[3] + m[4], far_odd = m[3] - m[4];
  Vector half_even = {}, half_odd = {};
  if constexpr (kSide == 8) half_even = m[5] + m[6], half_odd = m[5] - m[6];
  to[0] = m[0] + even + far_even + half_even;
#pragma GCC unroll 4
  for (int i = 1; i < kCount; ++i) {
    const bool is_even = i % 2 == 0;
    to[i] = (is_even ? even : odd) + static_cast<float>(1 << i) * (is_even ? far_even : far_odd);
    if constexpr (kSide == 8) to[i] += 1.0f / static_cast<float>(1 << i) * (is_even ? half_even : half_odd);
  }
  to[kCount - 1] += m[kSide - 1];
}

// 1 / Π over the other points of (point - other point), but for ∞.
template <int kSide>
struct Scales {
  static constexpr float kAt[] = {1.0f / 4, -1.0f / 6, -1.0f / 6, 1.0f / 24, 1.0f / 24, 1};
};
template <>
struct Scales<8> {
  static constexpr float kAt[] = {-1, -2.0f / 9, -2.0f / 9, 1.0f / 90, 1.0f / 90, 32.0f / 45, 32.0f / 45, 1};
};

// to = G w.
template <int kCount, int kSide>
COLONNADE_VECTOR_INLINE void TransformTaps(const Vector (&w)[kCount], Vector (&to)[kSide]) {
  TransformTile(w, to);
  for (int i = 0; i < kSide; ++i) to[i] *= Scales<kSide>::kAt[i];
}

// to = Gᵀ s.
template <int kCount, int kSide>
COLONNADE_VECTOR_INLINE void TransformSums(const Vector (&s)[kSide], Vector (&to)[kCount]) {
  Vector scaled[kSide];
  for (int i = 0; i < kSide; ++i) scaled[i] = s[i] * Scales<kSide>::kAt[i];
  TransformProducts(scaled, to);
}

// Where tile `index` of all images begins.
struct Place {
  std::int64_t image, row, column;
};
COLONNADE_VECTOR_INLINE Place PlaceOf(const TiledImages& of, std::int64_t index) {
  const std::int64_t tiles = of.down * of.across, at = index % tiles;
  return {index / tiles, at / of.across * kTileSize - of.top, at % of.across * kTileSize - of.left};
}

// Pixel (row + i, column + j) of each i < kSize, zero outside of the image; without a test if the tile lies inside.
template <int kSize, bool kInside, class Element>
COLONNADE_VECTOR_INLINE void LoadColumn(const TiledImages& of, const Element* image, const Place& at, int j,
                                        Vector (&to)[kSize]) {
  const std::int64_t column = at.column + j;
  const bool in_column = column >= 0 && column < of.columns;
#pragma GCC unroll 8
  for (int i = 0; i < kSize; ++i) {
    const std::int64_t row = at.row + i;
    to[i] = Vector{};
    if (kInside || (in_column && row >= 0 && row < of.rows)) Load(image + (row * of.columns + column) * 16, to[i]);
  }
}

// kTransform of the columns, then of the rows, of a square of kSize pixels.
template <int kSize, int kSide, bool kInside, void (*kTransform)(const Vector (&)[kSize], Vector (&)[kSide]), class Element>
COLONNADE_VECTOR_INLINE void ReadSquare(const TiledImages& of, const Element* image, const Place& at, std::int64_t point,
                                        float* to) {
  Vector columns[kSize][kSide];
#pragma GCC unroll 1
  for (int j = 0; j < kSize; ++j) {
    Vector column[kSize];
    LoadColumn<kSize, kInside>(of, image, at, j, column);
    kTransform(column, columns[j]);
  }
#pragma GCC unroll 1
  for (int i = 0; i < kSide; ++i) {
    Vector row[kSize], points[kSide];
#pragma GCC unroll 8
    for (int j = 0; j < kSize; ++j) row[j] = columns[j][i];
    kTransform(row, points);
#pragma GCC unroll 8
    for (int j = 0; j < kSide; ++j) Store(points[j], to + (i * kSide + j) * point);
  }
}

template <int kSize, int kSide, void (*kTransform)(const Vector (&)[kSize], Vector (&)[kSide]), class Element>
void ReadSquaresOf(const TiledImages& of, const Element* images, std::int64_t first, std::int64_t count, std::int64_t room,
                   float* to) {
  const std::int64_t plane = of.rows * of.columns * 16, point = PointFloats(of.blocks, room);
  for (std::int64_t t = 0; t < count; ++t) {
    const Place at = PlaceOf(of, first + t);
    const bool inside = at.row >= 0 && at.column >= 0 && at.row + kSize <= of.rows && at.column + kSize <= of.columns;
    for (std::int64_t b = 0; b < of.blocks; ++b) {
      for (int lane = 0; lane < 16; lane += kLanes) {
        const Element* image = images + (at.image * of.blocks + b) * plane + lane;
        float* square = to + (b * room + t) * 16 + lane;
        if (inside) {
          ReadSquare<kSize, kSide, true, kTransform>(of, image, at, point, square);
        } else {
          ReadSquare<kSize, kSide, false, kTransform>(of, image, at, point, square);
        }
      }
    }
  }
}

template <int kSize, int kSide, void (*kTransform)(const Vector (&)[kSize], Vector (&)[kSide])>
void ReadSquares(const TiledImages& of, const void* images, std::int64_t first, std::int64_t count, std::int64_t room,
                 float* to) {
  if (of.bf16) {
    ReadSquaresOf<kSize, kSide, kTransform>(of, static_cast<const std::uint16_t*>(images), first, count, room, to);
  } else {
    ReadSquaresOf<kSize, kSide, kTransform>(of, static_cast<const float*>(images), first, count, room, to);
  }
}

void ReadPatches(const TiledImages& of, const void* x, std::int64_t first, std::int64_t count, std::int64_t room,
                 float* to) {
  (of.window == 3 ? ReadSquares<6, 6, TransformPatch> : ReadSquares<8, 8, TransformPatch>)(of, x, first, count, room, to);
}

void ReadTiles(const TiledImages& of, const void* dy, std::int64_t first, std::int64_t count, std::int64_t room, float* to) {
  (of.window == 3 ? ReadSquares<4, 6, TransformTile> : ReadSquares<4, 8, TransformTile>)(of, dy, first, count, room, to);
}

// What lies outside of the image is dropped.
template <int kSide, class Element>
COLONNADE_VECTOR_INLINE void WriteTile(const TiledImages& of, const float* m, std::int64_t point, const Place& at,
                                       const Vector& bias, bool relu, Element* image) {
  Vector columns[kSide][kTileSize];
#pragma GCC unroll 1
  for (int j = 0; j < kSide; ++j) {
    Vector products[kSide];
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) Load(m + (i * kSide + j) * point, products[i]);
    TransformProducts(products, columns[j]);
  }
  const std::int64_t rows = Least(kTileSize, of.rows - at.row), width = Least(kTileSize, of.columns - at.column);
#pragma GCC unroll 1
  for (int i = 0; i < rows; ++i) {
    Vector row[kSide], pixels[kTileSize];
#pragma GCC unroll 8
    for (int j = 0; j < kSide; ++j) row[j] = columns[j][i];
    TransformProducts(row, pixels);
    Element* to = image + ((at.row + i) * of.columns + at.column) * 16;
#pragma GCC unroll 4
    for (int j = 0; j < kTileSize; ++j) {
      if (j >= width) break;
      Vector pixel = pixels[j] + bias;
      if (relu) pixel = pixel > 0.0f ? pixel : Vector{};
      Store(pixel, to + j * 16);
    }
  }
}

template <int kSide, class Element>
void WriteTilesOf(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                  std::int64_t room, const float* bias, bool relu, Element* y) {
  const std::int64_t plane = of.rows * of.columns * 16, point = PointFloats(1, room);
  for (int lane = 0; lane < 16; lane += kLanes) {
    Vector added = {};
    if (bias != nullptr) Load(bias + lane, added);
    for (std::int64_t t = 0; t < count; ++t) {
      const Place at = PlaceOf(of, first + t);
      WriteTile<kSide>(of, m + t * 16 + lane, point, at, added, relu, y + (at.image * of.blocks + block) * plane + lane);
    }
  }
}

template <int kSide>
void WriteSquares(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                  std::int64_t room, const float* bias, bool relu, void* y) {
  if (of.bf16) {
    WriteTilesOf<kSide>(of, m, block, first, count, room, bias, relu, static_cast<std::uint16_t*>(y));
  } else {
    WriteTilesOf<kSide>(of, m, block, first, count, room, bias, relu, static_cast<float*>(y));
  }
}

void WriteTiles(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                std::int64_t room, const float* bias, bool relu, void* y) {
  (of.window == 3 ? WriteSquares<6> : WriteSquares<8>)(of, m, block, first, count, room, bias, relu, y);
}

template <int kWindow>
void TransformWindow(const float* w, std::int64_t point, float* to) {
  constexpr int kSide = kWindow + 3;
  for (int lane = 0; lane < 16; lane += kLanes) {
    Vector columns[kWindow][kSide];
    for (int s = 0; s < kWindow; ++s) {
      Vector taps[kWindow];
      for (int r = 0; r < kWindow; ++r) Load(w + (r * kWindow + s) * 16 + lane, taps[r]);
      TransformTaps(taps, columns[s]);
    }
    for (int i = 0; i < kSide; ++i) {
      Vector row[kWindow], points[kSide];
      for (int s = 0; s < kWindow; ++s) row[s] = columns[s][i];
      TransformTaps(row, points);
      for (int j = 0; j < kSide; ++j) Store(points[j], to + (i * kSide + j) * point + lane);
    }
  }
}

void TransformWeights(std::int64_t window, const float* w, std::int64_t point, float* to) {
  (window == 3 ? TransformWindow<3> : TransformWindow<5>)(w, point, to);
}

template <int kWindow>
void AddWindow(const float* s, std::int64_t point, std::int64_t tap, float* dw) {
  constexpr int kSide = kWindow + 3;
  for (int lane = 0; lane < 16; lane += kLanes) {
    Vector columns[kSide][kWindow];
    for (int j = 0; j < kSide; ++j) {
      Vector sums[kSide];
      for (int i = 0; i < kSide; ++i) Load(s + (i * kSide + j) * point + lane, sums[i]);
      TransformSums(sums, columns[j]);
    }
    for (int r = 0; r < kWindow; ++r) {
      Vector row[kSide], taps[kWindow];
      for (int j = 0; j < kSide; ++j) row[j] = columns[j][r];
      TransformSums(row, taps);
      for (int q = 0; q < kWindow; ++q) {
        float* to = dw + (r * kWindow + q) * tap + lane;
        Vector sum;
        Load(to, sum);
        Store(sum + taps[q], to);
      }
    }
  }
}

void AddWeights(std::int64_t window, const float* s, std::int64_t point, std::int64_t tap, float* dw) {
  (window == 3 ? AddWindow<3> : AddWindow<5>)(s, point, tap, dw);
}

// How many tiles, and how many inputs of a sum over tiles, are held for two vectors of outputs at once, and for one.
constexpr int kTilesOfTwo = kRegisters == 32 ? 12 : 6, kTilesOfOne = kRegisters == 32 ? 14 : 12;
constexpr int kInputsOfTwo = kRegisters == 32 ? 8 : 4, kInputsOfOne = kRegisters == 32 ? 16 : 8;
static_assert(kTilesOfOne - 1 <= kSpareTiles && kTilesOfTwo - 1 <= kSpareTiles && kTilesOfProduct % kTilesOfTwo == 0);

// Fetches the pixels of some tiles, a row of a tile at a time.
class TileFetcher {
 public:
  explicit TileFetcher(const TilesAhead& ahead) : ahead_(ahead), left_(ahead.count * ahead.blocks * kTileSize) {}

  std::int64_t left() const { return left_; }
  void FetchRow() {
    if (row_ == kTileSize) {
      row_ = 0;
      if (++block_ == ahead_.blocks) {
        block_ = 0;
        ++tile_;
      }
    }
    if (row_ == 0 && block_ == 0) at_ = PlaceOf(ahead_.of, ahead_.first + tile_);
    const TiledImages& of = ahead_.of;
    const std::int64_t row = at_.row + of.top + row_, column = at_.column + of.left;
    const std::int64_t plane = at_.image * of.blocks + ahead_.block + block_;
    const std::int64_t pixel = of.bf16 ? 32 : 64, bytes = Least(kTileSize, of.columns - column) * pixel;
    const char* pixels = static_cast<const char*>(ahead_.images) + ((plane * of.rows + row) * of.columns + column) * pixel;
    for (std::int64_t byte = 0; row < of.rows && byte < bytes; byte += 64) __builtin_prefetch(pixels + byte, 0, 2);
    ++row_;
    --left_;
  }

 private:
  const TilesAhead& ahead_;
  std::int64_t left_, tile_ = 0, block_ = 0, row_ = 0;
  Place at_ = {};
};

// Fetches all of `ahead` in `steps` calls of Step.
class Fetcher {
 public:
  Fetcher(const Ahead& ahead, std::int64_t steps) : tiles_{TileFetcher(ahead.x), TileFetcher(ahead.y)} {
    for (int i = 0; i < 2; ++i) rows_[i] = (tiles_[i].left() + steps - 1) / steps;
  }
  void Step() {
    for (int i = 0; i < 2; ++i) {
      for (std::int64_t row = Least(rows_[i], tiles_[i].left()); row > 0; --row) tiles_[i].FetchRow();
    }
  }

 private:
  TileFetcher tiles_[2];
  std::int64_t rows_[2];  // in a step
};

// The block that vector `index` of outputs is of, and its first lane there.
struct OutputVector {
  std::int64_t block, lane;
  explicit OutputVector(std::int64_t index) : block(index * kLanes / 16), lane(index * kLanes % 16) {}
};

// Calls two(vector) for pairs of the vectors of outputs, and one(vector) for a last one.
template <class Two, class One>
COLONNADE_VECTOR_INLINE void ForVectors(std::int64_t vectors, const Two& two, const One& one) {
  for (std::int64_t vector = 0; vector < vectors; vector += 2) vector + 1 < vectors ? two(vector) : one(vector);
}

// sums [k][row] += Σ over `steps` of x·w: step s multiplies the float x[row·kRowStride + s·kStepStride] of each row by the
// vectors w[k] + 16s.
template <int kVectors, int kRows, int kRowStride, int kStepStride>
COLONNADE_VECTOR_INLINE void AddProducts(std::int64_t steps, const float* x, const float* const (&w)[kVectors],
                                         Vector (&sums)[kVectors][kRows]) {
#pragma GCC unroll 1
  for (std::int64_t s = 0; s < steps; ++s) {
    Vector columns[kVectors];
#pragma GCC unroll 2
    for (int k = 0; k < kVectors; ++k) {
      Load(w[k] + s * 16, columns[k]);
      Keep(columns[k]);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      Vector value = Broadcast(x[row * kRowStride + s * kStepStride]);
      if (kVectors > 1) Keep(value);
#pragma GCC unroll 2
      for (int k = 0; k < kVectors; ++k) sums[k][row] += value * columns[k];
    }
  }
}

// Row `row` of sums[k] to to[k] + row·stride.
template <int kVectors, int kRows>
COLONNADE_VECTOR_INLINE void StoreRows(const Vector (&sums)[kVectors][kRows], std::int64_t stride,
                                       float* const (&to)[kVectors]) {
#pragma GCC unroll 2
  for (int k = 0; k < kVectors; ++k) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) Store(sums[k][row], to[k] + row * stride);
  }
}

// m = Σ over inputs of kTiles tiles v of one point.
template <int kVectors, int kTiles>
COLONNADE_VECTOR_INLINE void MultiplyTiles(std::int64_t blocks, std::int64_t room, const float* v,
                                           const float* const (&u)[kVectors], float* const (&m)[kVectors]) {
  Vector sums[kVectors][kTiles] = {};
  const float* weights[kVectors];
  for (int k = 0; k < kVectors; ++k) weights[k] = u[k];
  for (std::int64_t b = 0; b < blocks; ++b, v += room * 16) {
    AddProducts<kVectors, kTiles, 16, 1>(16, v, weights, sums);
    for (int k = 0; k < kVectors; ++k) weights[k] += 16 * 16;
  }
  StoreRows(sums, 16, m);
}

template <int kVectors, int kTiles>
void MultiplyVectors(std::int64_t points, std::int64_t vector, std::int64_t count, std::int64_t blocks, std::int64_t room,
                     const float* v, std::int64_t v_point, const float* u, float* m, Fetcher& fetcher) {
  const std::int64_t m_point = PointFloats(1, room), u_point = blocks * 16 * 16;
  for (std::int64_t p = 0; p < points; ++p) {
    const float* weights[kVectors];
    float* products[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      const OutputVector to(vector + k);
      weights[k] = u + (to.block * points + p) * u_point + to.lane;
      products[k] = m + (to.block * points + p) * m_point + to.lane;
    }
    for (std::int64_t t = 0; t < count; t += kTiles) {
      MultiplyTiles<kVectors, kTiles>(blocks, room, v + p * v_point + t * 16, weights, products);
      for (int k = 0; k < kVectors; ++k) products[k] += kTiles * 16;
      fetcher.Step();
    }
  }
}

void Multiply(std::int64_t window, std::int64_t count, std::int64_t blocks, std::int64_t output_blocks, std::int64_t room,
              const float* v, std::int64_t v_point, const float* u, float* m, const Ahead& ahead) {
  const std::int64_t points = Points(window), vectors = output_blocks * 16 / kLanes;
  const std::int64_t steps_of_two = (count + kTilesOfTwo - 1) / kTilesOfTwo,
                     steps_of_one = (count + kTilesOfOne - 1) / kTilesOfOne;
  Fetcher fetcher(ahead, points * (vectors / 2 * steps_of_two + vectors % 2 * steps_of_one));
  ForVectors(
      vectors,
      [&](std::int64_t vector) {
        MultiplyVectors<2, kTilesOfTwo>(points, vector, count, blocks, room, v, v_point, u, m, fetcher);
      },
      [&](std::int64_t vector) {
        MultiplyVectors<1, kTilesOfOne>(points, vector, count, blocks, room, v, v_point, u, m, fetcher);
      });
}

// s = Σ over tiles of kInputs inputs v and the vectors z of outputs, of one point; inputs of s lie `row` floats apart.
template <int kVectors, int kInputs>
COLONNADE_VECTOR_INLINE void SumTiles(std::int64_t count, const float* v, const float* const (&z)[kVectors],
                                      std::int64_t row, float* const (&s)[kVectors]) {
  Vector sums[kVectors][kInputs] = {};
  AddProducts<kVectors, kInputs, 1, 16>(count, v, z, sums);
  StoreRows(sums, row, s);
}

struct GradientTiles {
  std::int64_t points, count, room;
  const float* v;
  std::int64_t v_point;
  const float* z;
  std::int64_t z_point;
};

template <int kVectors, int kInputs>
void SumVectors(std::int64_t vector, const GradientTiles& of, std::int64_t row, float* s, Fetcher& fetcher) {
  for (std::int64_t p = 0; p < of.points; ++p) {
    const float* gradients[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      const OutputVector from(vector + k);
      gradients[k] = of.z + p * of.z_point + from.block * of.room * 16 + from.lane;
    }
    for (std::int64_t c = 0; c < 16; c += kInputs) {
      float* sums[kVectors];
      for (int k = 0; k < kVectors; ++k) sums[k] = s + (p * 16 + c) * row + (vector + k) * kLanes;
      SumTiles<kVectors, kInputs>(of.count, of.v + p * of.v_point + c, gradients, row, sums);
      fetcher.Step();
    }
  }
}

void SumProducts(std::int64_t window, std::int64_t count, std::int64_t output_blocks, std::int64_t room, const float* v,
                 std::int64_t v_point, const float* z, std::int64_t z_point, float* s, const Ahead& ahead) {
  const std::int64_t points = Points(window);
  const GradientTiles of = {points, count, room, v, v_point, z, z_point};
  const std::int64_t row = output_blocks * 16, vectors = row / kLanes;
  Fetcher fetcher(ahead, points * (vectors / 2 * (16 / kInputsOfTwo) + vectors % 2 * (16 / kInputsOfOne)));
  ForVectors(
      vectors, [&](std::int64_t vector) { SumVectors<2, kInputsOfTwo>(vector, of, row, s, fetcher); },
      [&](std::int64_t vector) { SumVectors<1, kInputsOfOne>(vector, of, row, s, fetcher); });
}

}  // namespace
}  // namespace colonnade::cpu
