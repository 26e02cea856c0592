// The body of winograd_loops.h for vectors of kLanes floats, included once by each source that is compiled for an
// instruction set (vectors.h); the source makes its tables by WinogradLoopsOf. The file is long because all that works on
// these vectors must be compiled together: transformations, products, sums, and what is fetched meanwhile.
#include "cpu/ops/winograd_loops.h"

namespace colonnade::cpu {
namespace {

// to = Bᵀ d: row p has the coefficients of Π (x - other point) over the other finite points.
COLONNADE_VECTOR_INLINE void TransformPatch(const Vector (&d)[4], Vector (&to)[4]) {
  to[0] = d[2] - d[0];
  to[1] = d[2] + d[1];
  to[2] = d[2] - d[1];
  to[3] = d[3] - d[1];
}
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
  if constexpr (kSide > 4) {
    to[3] = far_even + far_odd;
    to[4] = far_even - far_odd;
  }
  if constexpr (kSide > 6) {
    to[5] = half_even + half_odd;
    to[6] = half_even - half_odd;
  }
  to[kSide - 1] = d[kCount - 1];
}

// to = Aᵀ m.
template <int kCount, int kSide>
COLONNADE_VECTOR_INLINE void TransformProducts(const Vector (&m)[kSide], Vector (&to)[kCount]) {
  const Vector even = m[1] + m[2], odd = m[1] - m[2];
  Vector far_even = {}, far_odd = {}, half_even = {}, half_odd = {};
  if constexpr (kSide > 4) {
    far_even = m[3] + m[4];
    far_odd = m[3] - m[4];
  }
  if constexpr (kSide > 6) {
    half_even = m[5] + m[6];
    half_odd = m[5] - m[6];
  }
  to[0] = m[0] + even;
  if constexpr (kSide > 4) to[0] += far_even;
  if constexpr (kSide > 6) to[0] += half_even;
#pragma GCC unroll 4
  for (int i = 1; i < kCount; ++i) {
    const bool is_even = i % 2 == 0;
    to[i] = is_even ? even : odd;
    if constexpr (kSide > 4) to[i] += static_cast<float>(1 << i) * (is_even ? far_even : far_odd);
    if constexpr (kSide > 6) to[i] += 1.0f / static_cast<float>(1 << i) * (is_even ? half_even : half_odd);
  }
  to[kCount - 1] += m[kSide - 1];
}

// 1 / Π over the other points of (point - other point), but for ∞.
template <int kSide>
struct Scales;
template <>
struct Scales<6> {
  static constexpr float kAt[] = {1.0f / 4, -1.0f / 6, -1.0f / 6, 1.0f / 24, 1.0f / 24, 1};
};
template <>
struct Scales<4> {
  static constexpr float kAt[] = {-1, 1.0f / 2, 1.0f / 2, 1};
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

COLONNADE_VECTOR_INLINE void AddTo(float* to, const Vector& added) {
  Vector sum;
  Load(to, sum);
  Store(sum + added, to);
}

// Where tile `index` of all images begins.
struct TileCorner {
  std::int64_t image, row, column;
};
COLONNADE_VECTOR_INLINE TileCorner CornerOf(const TiledImages& of, std::int64_t index) {
  const std::int64_t tiles = of.down * of.across, at = index % tiles, step = of.tile * of.stride;
  return {index / tiles, at / of.across * step - of.top, at % of.across * step - of.left};
}

// Reads kLanes channels, from `lane` on, of pixels of a block; zeros outside of the image. With kInside it does not test.
template <class Element>
struct BlockPixels {
  static constexpr std::int64_t kStride = 1;
  const Element* pixels;

  COLONNADE_VECTOR_INLINE BlockPixels(const TiledImages& of, const void* images, std::int64_t block, int lane)
      : pixels(static_cast<const Element*>(images) + block * of.rows * of.columns * kChannelBlock + lane) {}
  template <bool kInside>
  COLONNADE_VECTOR_INLINE void LoadPixel(const TiledImages& of, std::int64_t row, std::int64_t column, Vector& to) const {
    to = Vector{};
    const bool inside = row >= 0 && row < of.rows && column >= 0 && column < of.columns;
    if (kInside || inside) Load(pixels + (row * of.columns + column) * kChannelBlock, to);
  }
};

// Does the same for images in rows: a pixel is a square of 4 x 4 of theirs, whose rows follow one another in the lanes.
template <class Element>
struct SquarePixels {
  static constexpr std::int64_t kStride = kSquareSize;
  const Element* pixels;
  std::int64_t first_row;  // of a square

  COLONNADE_VECTOR_INLINE SquarePixels(const TiledImages& of, const void* images, std::int64_t block, int lane)
      : pixels(static_cast<const Element*>(images) + block * of.rows * of.columns), first_row(lane / kSquareSize) {}
  template <bool kInside>
  COLONNADE_VECTOR_INLINE void LoadPixel(const TiledImages& of, std::int64_t row, std::int64_t column, Vector& to) const {
    if (kInside) return LoadRowsOfFour(pixels + (row + first_row) * of.columns + column, of.columns, to);
    Element lanes[kLanes] = {};
    for (int i = 0; i < kLanes; ++i) {
      const std::int64_t y = row + first_row + i / kSquareSize, x = column + i % kSquareSize;
      if (y >= 0 && y < of.rows && x >= 0 && x < of.columns) lanes[i] = pixels[y * of.columns + x];
    }
    Load(lanes, to);
  }
};

// Applies kTransform to the columns, then to the rows, of a square of kSize x kSize pixels, and stores the points. Returns
// the value at the point (1, 1), where A adds all rows and columns.
template <int kSize, int kSide, bool kInside, void (*kTransform)(const Vector (&)[kSize], Vector (&)[kSide]), class Pixels,
          class Factor>
COLONNADE_VECTOR_INLINE Vector ReadTile(const TiledImages& of, const Pixels& pixels, const TileCorner& at,
                                        std::int64_t point, Factor* to) {
  Vector columns[kSize][kSide], sum = {};
#pragma GCC unroll 1
  for (int j = 0; j < kSize; ++j) {
    Vector column[kSize];
#pragma GCC unroll 8
    for (int i = 0; i < kSize; ++i) {
      pixels.template LoadPixel<kInside>(of, at.row + i * Pixels::kStride, at.column + j * Pixels::kStride, column[i]);
    }
    kTransform(column, columns[j]);
  }
#pragma GCC unroll 1
  for (int i = 0; i < kSide; ++i) {
    Vector row[kSize], points[kSide];
#pragma GCC unroll 8
    for (int j = 0; j < kSize; ++j) row[j] = columns[j][i];
    kTransform(row, points);
    if (i == 1) sum = points[1];
#pragma GCC unroll 8
    for (int j = 0; j < kSide; ++j) StoreFactors(points[j], to + (i * kSide + j) * point);
  }
  return sum;
}

// Calls ReadTile for `count` tiles, or patches, of all blocks, and adds what it returns to sums [16·blocks] unless null.
template <int kSize, int kSide, void (*kTransform)(const Vector (&)[kSize], Vector (&)[kSide]), class Pixels, class Factor>
void ReadTilesOf(const TiledImages& of, const void* images, std::int64_t first, std::int64_t count, std::int64_t room,
                 Factor* to, float* sums) {
  constexpr std::int64_t kExtent = kSize * Pixels::kStride;
  const std::int64_t point = PointSize<Factor>(of.blocks, room);
  for (std::int64_t t = 0; t < count; ++t) {
    const TileCorner at = CornerOf(of, first + t);
    const bool inside = at.row >= 0 && at.column >= 0 && at.row + kExtent <= of.rows && at.column + kExtent <= of.columns;
    for (std::int64_t b = 0; b < of.blocks; ++b) {
      for (int lane = 0; lane < kChannelBlock; lane += kLanes) {
        const Pixels pixels(of, images, at.image * of.blocks + b, lane);
        Factor* tile = to + (b * room + t) * kChannelBlock + lane;
        const Vector added = inside ? ReadTile<kSize, kSide, true, kTransform>(of, pixels, at, point, tile)
                                    : ReadTile<kSize, kSide, false, kTransform>(of, pixels, at, point, tile);
        if (sums != nullptr) AddTo(sums + b * kChannelBlock + lane, added);
      }
    }
  }
}

template <int kSide, class Factor>
void ReadPatches(const TiledImages& of, const void* x, std::int64_t first, std::int64_t count, std::int64_t room,
                 Factor* to) {
  if (of.stride == 1) {
    (of.bf16
         ? ReadTilesOf<kSide, kSide, TransformPatch, BlockPixels<Bf16>, Factor>
         : ReadTilesOf<kSide, kSide, TransformPatch, BlockPixels<float>, Factor>)(of, x, first, count, room, to, nullptr);
  } else {
    (of.bf16
         ? ReadTilesOf<kSide, kSide, TransformPatch, SquarePixels<Bf16>, Factor>
         : ReadTilesOf<kSide, kSide, TransformPatch, SquarePixels<float>, Factor>)(of, x, first, count, room, to, nullptr);
  }
}

template <int kTile, int kSide, class Factor>
void ReadTiles(const TiledImages& of, const void* dy, std::int64_t first, std::int64_t count, std::int64_t room, Factor* to,
               float* sums) {
  (of.bf16 ? ReadTilesOf<kTile, kSide, TransformTile, BlockPixels<Bf16>, Factor>
           : ReadTilesOf<kTile, kSide, TransformTile, BlockPixels<float>, Factor>)(of, dy, first, count, room, to, sums);
}

template <class Factor>
void JoinRows(std::int64_t count, Factor* rows) {
  if constexpr (kFactorsOfSum<Factor> == 2) {
    for (std::int64_t row = 0; row < count; row += 2) JoinTwoRows(rows + row * kChannelBlock);
  }
}

// Writes the pixels of one tile; those outside of the image are dropped.
template <int kTile, int kSide, class Element>
COLONNADE_VECTOR_INLINE void WriteTile(const TiledImages& of, const float* m, std::int64_t point, const TileCorner& at,
                                       const Vector& bias, bool relu, Element* image) {
  Vector columns[kSide][kTile];
#pragma GCC unroll 1
  for (int j = 0; j < kSide; ++j) {
    Vector products[kSide];
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) Load(m + (i * kSide + j) * point, products[i]);
    TransformProducts(products, columns[j]);
  }
  const std::int64_t rows = Least(kTile, of.rows - at.row), width = Least(kTile, of.columns - at.column);
#pragma GCC unroll 1
  for (int i = 0; i < rows; ++i) {
    Vector row[kSide], pixels[kTile];
#pragma GCC unroll 8
    for (int j = 0; j < kSide; ++j) row[j] = columns[j][i];
    TransformProducts(row, pixels);
    Element* to = image + ((at.row + i) * of.columns + at.column) * kChannelBlock;
#pragma GCC unroll 4
    for (int j = 0; j < kTile; ++j) {
      if (j >= width) break;
      Vector pixel = pixels[j] + bias;
      if (relu) pixel = pixel > 0.0f ? pixel : Vector{};
      Store(pixel, to + j * kChannelBlock);
    }
  }
}

template <int kTile, int kSide, class Element>
void WriteTilesOf(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                  std::int64_t room, const float* bias, bool relu, Element* y) {
  const std::int64_t plane = of.rows * of.columns * kChannelBlock, point = PointSize<float>(1, room);
  for (int lane = 0; lane < kChannelBlock; lane += kLanes) {
    Vector added = {};
    if (bias != nullptr) Load(bias + lane, added);
    for (std::int64_t t = 0; t < count; ++t) {
      const TileCorner at = CornerOf(of, first + t);
      WriteTile<kTile, kSide>(of, m + t * kChannelBlock + lane, point, at, added, relu,
                              y + (at.image * of.blocks + block) * plane + lane);
    }
  }
}

template <int kTile, int kSide>
void WriteTiles(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                std::int64_t room, const float* bias, bool relu, void* y) {
  if (of.bf16) {
    WriteTilesOf<kTile, kSide>(of, m, block, first, count, room, bias, relu, static_cast<Bf16*>(y));
  } else {
    WriteTilesOf<kTile, kSide>(of, m, block, first, count, room, bias, relu, static_cast<float*>(y));
  }
}

template <int kWindow, int kSide, class Factor>
void TransformWeights(const float* w, std::int64_t point, Factor* to) {
  for (int lane = 0; lane < kChannelBlock; lane += kLanes) {
    Vector columns[kWindow][kSide];
    for (int s = 0; s < kWindow; ++s) {
      Vector taps[kWindow];
      for (int r = 0; r < kWindow; ++r) Load(w + (r * kWindow + s) * kChannelBlock + lane, taps[r]);
      TransformTaps(taps, columns[s]);
    }
    for (int i = 0; i < kSide; ++i) {
      Vector row[kWindow], points[kSide];
      for (int s = 0; s < kWindow; ++s) row[s] = columns[s][i];
      TransformTaps(row, points);
      for (int j = 0; j < kSide; ++j) StoreFactors(points[j], to + (i * kSide + j) * point + lane);
    }
  }
}

template <int kWindow, int kSide>
void AddWeights(const float* s, std::int64_t point, std::int64_t tap, float* dw) {
  for (int lane = 0; lane < kChannelBlock; lane += kLanes) {
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
        AddTo(dw + (r * kWindow + q) * tap + lane, taps[q]);
      }
    }
  }
}

// How many tiles, and how many inputs of a sum over tiles, are held for two vectors of outputs at once, and for one.
constexpr int kTilesOfTwo = kRegisters == 32 ? 12 : 6, kTilesOfOne = kRegisters == 32 ? 14 : 12;
constexpr int kInputsOfTwo = kRegisters == 32 ? 8 : 4, kInputsOfOne = kRegisters == 32 ? 16 : 8;
static_assert(kTilesOfOne - 1 <= kSpareTiles && kTilesOfTwo - 1 <= kSpareTiles && kTilesOfProduct % kTilesOfTwo == 0);

// Fetches the pixels of some tiles, a row of a tile at a time.
class TileFetcher {
 public:
  explicit TileFetcher(const TilesAhead& ahead) : ahead_(ahead), left_(ahead.count * ahead.blocks * ahead.of.tile) {}

  std::int64_t left() const { return left_; }
  void FetchRow() {
    if (row_ == ahead_.of.tile) {
      row_ = 0;
      if (++block_ == ahead_.blocks) {
        block_ = 0;
        ++tile_;
      }
    }
    if (row_ == 0 && block_ == 0) at_ = CornerOf(ahead_.of, ahead_.first + tile_);
    const TiledImages& of = ahead_.of;
    const std::int64_t row = at_.row + of.top + row_, column = at_.column + of.left;
    const std::int64_t plane = at_.image * of.blocks + ahead_.block + block_;
    const std::int64_t pixel = of.bf16 ? 32 : 64, bytes = Least(of.tile, of.columns - column) * pixel;
    const char* pixels = static_cast<const char*>(ahead_.images) + ((plane * of.rows + row) * of.columns + column) * pixel;
    for (std::int64_t byte = 0; row < of.rows && byte < bytes; byte += 64) __builtin_prefetch(pixels + byte, 0, 2);
    ++row_;
    --left_;
  }

 private:
  const TilesAhead& ahead_;
  std::int64_t left_, tile_ = 0, block_ = 0, row_ = 0;
  TileCorner at_ = {};
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

// The block that holds vector `index` of outputs, and the vector's first lane there.
struct OutputVector {
  std::int64_t block, lane;
  explicit OutputVector(std::int64_t index) : block(index * kLanes / kChannelBlock), lane(index * kLanes % kChannelBlock) {}
};

// Calls two(vector) for each pair of vectors of outputs, and one(vector) for a last single one.
template <class Two, class One>
COLONNADE_VECTOR_INLINE void ForVectors(std::int64_t vectors, const Two& two, const One& one) {
  for (std::int64_t vector = 0; vector < vectors; vector += 2) vector + 1 < vectors ? two(vector) : one(vector);
}

// sums [k][row] += Σ over `steps` of x·w: step s multiplies the factor, or pair, x[row·kRowStride + s·kStepStride] of each
// row by the vectors w[k] + s of 16 factors, or pairs.
template <int kVectors, int kRows, int kRowStride, int kStepStride, class Factor>
COLONNADE_VECTOR_INLINE void AddProducts(std::int64_t steps, const Factor* x, const Factor* const (&w)[kVectors],
                                         Vector (&sums)[kVectors][kRows]) {
#pragma GCC unroll 1
  for (std::int64_t s = 0; s < steps; ++s) {
    Factors<Factor> columns[kVectors];
#pragma GCC unroll 2
    for (int k = 0; k < kVectors; ++k) {
      LoadFactors(w[k] + s * kChannelBlock * kFactorsOfSum<Factor>, columns[k]);
      Keep(columns[k]);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      Factors<Factor> value = BroadcastFactors(x + row * kRowStride + s * kStepStride);
      if (kVectors > 1) Keep(value);
#pragma GCC unroll 2
      for (int k = 0; k < kVectors; ++k) AddProduct(value, columns[k], sums[k][row]);
    }
  }
}

// Stores row `row` of sums[k] at to[k] + row·stride.
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
template <int kVectors, int kTiles, class Factor>
COLONNADE_VECTOR_INLINE void MultiplyTiles(std::int64_t blocks, std::int64_t room, const Factor* v,
                                           const Factor* const (&u)[kVectors], float* const (&m)[kVectors]) {
  constexpr int kTogether = kFactorsOfSum<Factor>;
  Vector sums[kVectors][kTiles] = {};
  const Factor* weights[kVectors];
  for (int k = 0; k < kVectors; ++k) weights[k] = u[k];
  for (std::int64_t b = 0; b < blocks; ++b, v += room * kChannelBlock) {
    AddProducts<kVectors, kTiles, kChannelBlock, kTogether>(kChannelBlock / kTogether, v, weights, sums);
    for (int k = 0; k < kVectors; ++k) weights[k] += kChannelBlock * kChannelBlock;
  }
  StoreRows(sums, kChannelBlock, m);
}

template <int kPoints, int kVectors, int kTiles, class Factor>
void MultiplyVectors(std::int64_t vector, std::int64_t count, std::int64_t blocks, std::int64_t room, const Factor* v,
                     std::int64_t v_point, const Factor* u, float* m, Fetcher& fetcher) {
  const std::int64_t m_point = PointSize<float>(1, room), u_point = blocks * kChannelBlock * kChannelBlock;
  for (std::int64_t p = 0; p < kPoints; ++p) {
    const Factor* weights[kVectors];
    float* products[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      const OutputVector to(vector + k);
      weights[k] = u + (to.block * kPoints + p) * u_point + to.lane;
      products[k] = m + (to.block * kPoints + p) * m_point + to.lane;
    }
    for (std::int64_t t = 0; t < count; t += kTiles) {
      MultiplyTiles<kVectors, kTiles>(blocks, room, v + p * v_point + t * kChannelBlock, weights, products);
      for (int k = 0; k < kVectors; ++k) products[k] += kTiles * kChannelBlock;
      fetcher.Step();
    }
  }
}

template <int kPoints, class Factor>
void Multiply(std::int64_t count, std::int64_t blocks, std::int64_t output_blocks, std::int64_t room, const Factor* v,
              std::int64_t v_point, const Factor* u, float* m, const Ahead& ahead) {
  const std::int64_t vectors = output_blocks * kChannelBlock / kLanes;
  const std::int64_t steps_of_two = (count + kTilesOfTwo - 1) / kTilesOfTwo,
                     steps_of_one = (count + kTilesOfOne - 1) / kTilesOfOne;
  Fetcher fetcher(ahead, kPoints * (vectors / 2 * steps_of_two + vectors % 2 * steps_of_one));
  ForVectors(
      vectors,
      [&](std::int64_t vector) {
        MultiplyVectors<kPoints, 2, kTilesOfTwo>(vector, count, blocks, room, v, v_point, u, m, fetcher);
      },
      [&](std::int64_t vector) {
        MultiplyVectors<kPoints, 1, kTilesOfOne>(vector, count, blocks, room, v, v_point, u, m, fetcher);
      });
}

// s = Σ over tiles of kInputs inputs v and the vectors z of outputs, of one point; inputs of s lie `row` floats apart.
template <int kVectors, int kInputs, class Factor>
COLONNADE_VECTOR_INLINE void SumTiles(std::int64_t count, const Factor* v, const Factor* const (&z)[kVectors],
                                      std::int64_t row, float* const (&s)[kVectors]) {
  constexpr int kTogether = kFactorsOfSum<Factor>;
  Vector sums[kVectors][kInputs] = {};
  AddProducts<kVectors, kInputs, kTogether, kChannelBlock * kTogether>((count + kTogether - 1) / kTogether, v, z, sums);
  StoreRows(sums, row, s);
}

template <class Factor>
struct GradientTiles {
  std::int64_t count, room;
  const Factor* v;
  std::int64_t v_point;
  const Factor* z;
  std::int64_t z_point;
};

template <int kPoints, int kVectors, int kInputs, class Factor>
void SumVectors(std::int64_t vector, const GradientTiles<Factor>& of, std::int64_t row, float* s, Fetcher& fetcher) {
  for (std::int64_t p = 0; p < kPoints; ++p) {
    const Factor* gradients[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      const OutputVector from(vector + k);
      gradients[k] = of.z + p * of.z_point + from.block * of.room * kChannelBlock + from.lane;
    }
    for (std::int64_t c = 0; c < kChannelBlock; c += kInputs) {
      float* sums[kVectors];
      for (int k = 0; k < kVectors; ++k) sums[k] = s + (p * kChannelBlock + c) * row + (vector + k) * kLanes;
      SumTiles<kVectors, kInputs>(of.count, of.v + p * of.v_point + c * kFactorsOfSum<Factor>, gradients, row, sums);
      fetcher.Step();
    }
  }
}

template <int kPoints, class Factor>
void SumProducts(std::int64_t count, std::int64_t output_blocks, std::int64_t room, const Factor* v, std::int64_t v_point,
                 const Factor* z, std::int64_t z_point, float* s, const Ahead& ahead) {
  const GradientTiles<Factor> of = {count, room, v, v_point, z, z_point};
  const std::int64_t row = output_blocks * kChannelBlock, vectors = row / kLanes;
  Fetcher fetcher(ahead,
                  kPoints * (vectors / 2 * (kChannelBlock / kInputsOfTwo) + vectors % 2 * (kChannelBlock / kInputsOfOne)));
  ForVectors(
      vectors, [&](std::int64_t vector) { SumVectors<kPoints, 2, kInputsOfTwo>(vector, of, row, s, fetcher); },
      [&](std::int64_t vector) { SumVectors<kPoints, 1, kInputsOfOne>(vector, of, row, s, fetcher); });
}

template <class Factor, int kWindow>
constexpr WinogradLoops<Factor> WinogradLoopsOf(const char* vectors) {
  constexpr int kTile = kTileSize<Factor>, kSide = kTile + kWindow - 1, kPoints = kSide * kSide;
  return {vectors,
          kWindow,
          ReadPatches<kSide, Factor>,
          ReadTiles<kTile, kSide, Factor>,
          JoinRows<Factor>,
          WriteTiles<kTile, kSide>,
          TransformWeights<kWindow, kSide, Factor>,
          AddWeights<kWindow, kSide>,
          Multiply<kPoints, Factor>,
          SumProducts<kPoints, Factor>};
}

}  // namespace
}  // namespace colonnade::cpu
