// The loops of convolutions by Winograd's algorithm, compiled once for each instruction set (winograd_loops_avx512.cc,
// winograd_loops_avx512_bf16.cc, winograd_loops_avx2.cc).
//
// F(m x m, r x r) [Lavin and Gray 2015, arXiv:1509.09308]: for each tile d of m x m pixels of y, and the patch p of
// P = (m + r - 1)² pixels of x that it reads,
//   d = Aᵀ[(G w Gᵀ) ⊙ (Bᵀ p B)]A                   with P products of inputs and outputs instead of m²r²
//   dw = Gᵀ[Σ over tiles (A d' Aᵀ) ⊙ (Bᵀ p B)]G    of the gradients d' of y
// where A takes the values of a polynomial at some points, in both dimensions, G the same values over Π (point - other
// point), and Bᵀ depends on the points alone.
//
// | factors           | m, r | points                   | products | instead of |
// |-------------------|------|--------------------------|----------|------------|
// | floats            | 4, 3 | 0, 1, -1, 2, -2, ∞       | 36       | 144        |
// | floats            | 4, 5 | also 1/2 and -1/2        | 64       | 400        |
// | floats in 16 bits | 2, 3 | 0, 1, -1, ∞              | 16       | 36         |
//
// What is multiplied, the factors G w Gᵀ, Bᵀ p B and A d' Aᵀ, are floats, or floats rounded to bf16: the processor
// multiplies twice as many of these, and adds the products of two to a float. Tiles of factors in bf16 take only the points
// 0, 1, -1 and ∞, at which pixels are added and subtracted as they are, since each rounding counts as much as its factor.
//
// Images lie in blocks of 16 channels [N, blocks, rows, columns, 16]. Transformed tiles lie by pair of points and block:
// [P][blocks][room][16], where `room` is the most tiles that lie there and kSpareTiles more, and each pair begins
// PointSize<Factor>(blocks, room) factors after the one before. Pure functions; threads may call them on tiles of their own.
#ifndef COLONNADE_CPU_WINOGRAD_LOOPS_H_
#define COLONNADE_CPU_WINOGRAD_LOOPS_H_

#include <cstdint>

#include "cpu/channel_block.h"

namespace colonnade::cpu {

using Bf16 = std::uint16_t;  // the bits of a BFloat16, of which vectors are loaded

// Pixels of a tile's side.
template <class Factor>
inline constexpr std::int64_t kTileSize = sizeof(Factor) == sizeof(Bf16) ? 2 : 4;
// Factors of each side that one instruction multiplies and adds to one sum.
template <class Factor>
inline constexpr std::int64_t kFactorsOfSum = sizeof(float) / sizeof(Factor);
// P, for tiles and windows of so many pixels a side.
[[gnu::always_inline]] inline std::int64_t Points(std::int64_t tile, std::int64_t window) {
  return (tile + window - 1) * (tile + window - 1);
}
inline constexpr std::int64_t kSquareSize = 4;       // pixels of a side, which are 16 channels
inline constexpr std::int64_t kTilesOfProduct = 12;  // a product of many outputs takes multiples of so many tiles
inline constexpr std::int64_t kSpareTiles = 13;      // it reads and writes up to so many tiles beyond its last

// Returns the factors from one pair of points to the next: not a power of two, so that the points of one tile do not meet in
// one set of a cache.
template <class Factor>
[[gnu::always_inline]] inline std::int64_t PointSize(std::int64_t blocks, std::int64_t room) {
  return blocks * room * kChannelBlock + static_cast<std::int64_t>(64 / sizeof(Factor));
}

// Images cut into tiles, of which `down` times `across` cover one image, row by row, image by image. Tile (i, j) begins at
// pixel (i·tile·stride - top, j·tile·stride - left); pixels outside of the image are zero. Elements are floats, or bf16.
//
// With a stride of 4, images lie in rows [N, blocks, rows, columns], and each square of 4 x 4 pixels is read as one pixel of
// a block of 16 channels: by these, windows and tiles are counted. So a convolution of stride 4 is one of stride 1.
struct TiledImages {
  std::int64_t tile;  // pixels of a side
  std::int64_t stride = 1;
  bool bf16 = false;
  std::int64_t blocks, rows, columns;
  std::int64_t down, across;
  std::int64_t top = 0, left = 0;
};

// Pixels that are brought into the caches while products are taken: those of `count` tiles from `first` on, in the blocks
// [block, block + blocks) of images whose stride is 1.
struct TilesAhead {
  TiledImages of;
  const void* images;
  std::int64_t first, count, block, blocks;
};
struct Ahead {
  TilesAhead x, y;
};

// The loops for windows of one size.
template <class Factor>
struct WinogradLoops {
  const char* vectors;  // the instruction set of their vectors: "AVX-512"
  std::int64_t window;  // pixels of a side

  // to = Bᵀ p B of `count` patches from tile `first` on.
  void (*read_patches)(const TiledImages& of, const void* x, std::int64_t first, std::int64_t count, std::int64_t room,
                       Factor* to);
  // to = A d' Aᵀ of `count` tiles from tile `first` on, and sums [16·blocks] += Σ of their pixels.
  void (*read_tiles)(const TiledImages& of, const void* dy, std::int64_t first, std::int64_t count, std::int64_t room,
                     Factor* to, float* sums);
  // Turns rows [count][16] into [count / kFactorsOfSum][16][kFactorsOfSum], in place, as factors lie that are summed by row.
  void (*join_rows)(std::int64_t count, Factor* rows);
  // Pixels of block `block` of y = Aᵀ m A, m of [P][room][16], plus `bias` [16] unless that is null, at least 0 if `relu`.
  void (*write_tiles)(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                      std::int64_t room, const float* bias, bool relu, void* y);
  // to = G w Gᵀ of the weights w [window·window][16] from one input to 16 outputs; points lie `point` factors apart.
  void (*transform_weights)(const float* w, std::int64_t point, Factor* to);
  // dw [window·window][16], taps `tap` floats apart, += Gᵀ s G of one input and 16 outputs; points of s lie `point` floats
  // apart.
  void (*add_weights)(const float* s, std::int64_t point, std::int64_t tap, float* dw);
  // m [output_blocks][P][room][16] = Σ over inputs v·u, of `count` tiles of the `blocks` blocks of v, whose points lie
  // v_point factors apart, and u [output_blocks][P][16·blocks][16], whose rows are joined. Reads of v and writes to m up to
  // kSpareTiles more.
  void (*multiply)(std::int64_t count, std::int64_t blocks, std::int64_t output_blocks, std::int64_t room, const Factor* v,
                   std::int64_t v_point, const Factor* u, float* m, const Ahead& ahead);
  // s [P][16][16·output_blocks] = Σ over `count` tiles v·z, of one block of v, whose points lie v_point factors apart, and
  // the output_blocks blocks of z from z on, likewise; rows are joined.
  void (*sum_products)(std::int64_t count, std::int64_t output_blocks, std::int64_t room, const Factor* v,
                       std::int64_t v_point, const Factor* z, std::int64_t z_point, float* s, const Ahead& ahead);
};

// Returns the loops for a window of 3 or 5 pixels a side and the widest vectors that this processor has; null where it has
// none that they are compiled for.
template <class Factor>
const WinogradLoops<Factor>* FindWinogradLoops(std::int64_t window);
template <>
const WinogradLoops<float>* FindWinogradLoops(std::int64_t window);
template <>
const WinogradLoops<Bf16>* FindWinogradLoops(std::int64_t window);

extern const WinogradLoops<float> kWinograd3Avx512, kWinograd5Avx512, kWinograd3Avx2, kWinograd5Avx2;
extern const WinogradLoops<Bf16> kWinograd3Avx512Bf16;

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_WINOGRAD_LOOPS_H_
