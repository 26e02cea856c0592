// The loops of convolutions by Winograd's algorithm, compiled once for each instruction set (winograd_loops_avx512.cc,
// winograd_loops_avx2.cc).
//
// F(4 x 4, 3 x 3) and F(4 x 4, 5 x 5) [Lavin and Gray 2015, arXiv:1509.09308] at the points 0, 1, -1, 2, -2, for windows of
// 5 x 5 also 1/2 and -1/2, and ∞ of a polynomial, in both dimensions: for each tile d of 4 x 4 pixels of y, and the patch p
// of 6 x 6 (or 8 x 8) pixels of x that it reads,
//   d = Aᵀ[(G w Gᵀ) ⊙ (Bᵀ p B)]A                   with 36 products of inputs and outputs instead of 144 (or 64, of 400)
//   dw = Gᵀ[Σ over tiles (A d' Aᵀ) ⊙ (Bᵀ p B)]G    of the gradients d' of y
// where A takes the values of a polynomial at the points, G the same values over Π (point - other point), and Bᵀ depends on
// the points alone.
// Images lie in blocks of 16 channels [N, blocks, rows, columns, 16]. Transformed tiles lie by pair of points, of which
// there are P = 36 (or 64), and block: [P][blocks][room][16], where `room` is the most tiles that lie there and kSpareTiles
// more, and each pair begins PointFloats(blocks, room) floats after the one before. Pure functions; threads may call them on
// tiles of their own.
#ifndef COLONNADE_CPU_WINOGRAD_LOOPS_H_
#define COLONNADE_CPU_WINOGRAD_LOOPS_H_

#include <cstdint>

namespace colonnade::cpu {

inline constexpr std::int64_t kTileSize = 4;  // pixels of a side
// Of the patch that a tile reads, with a window of 3 x 3 or 5 x 5; and the pairs of points.
[[gnu::always_inline]] inline std::int64_t PatchSize(std::int64_t window) { return kTileSize - 1 + window; }
[[gnu::always_inline]] inline std::int64_t Points(std::int64_t window) { return PatchSize(window) * PatchSize(window); }
inline constexpr std::int64_t kTilesOfProduct = 12;  // of which a product of many outputs takes multiples
inline constexpr std::int64_t kSpareTiles = 13;      // that it reads and writes beyond its last

// Not a power of two, so that the points of one tile do not meet in one set of a cache.
[[gnu::always_inline]] inline std::int64_t PointFloats(std::int64_t blocks, std::int64_t room) {
  return blocks * room * 16 + 16;
}

// Images cut into tiles, of which `down` times `across` cover one image, row by row, image by image. Tile (i, j) begins at
// pixel (4i - top, 4j - left); pixels outside of the image are zero. Elements are floats, or their upper halves:
// products and sums are of floats all the same.
struct TiledImages {
  std::int64_t window;  // of the convolution, 3 or 5
  bool bf16 = false;
  std::int64_t blocks, rows, columns;
  std::int64_t down, across;
  std::int64_t top = 0, left = 0;
};

// Pixels that are brought into the caches while products are taken: those of `count` tiles from `first` on, in the blocks
// [block, block + blocks).
struct TilesAhead {
  TiledImages of;
  const void* images;
  std::int64_t first, count, block, blocks;
};
struct Ahead {
  TilesAhead x, y;
};

struct WinogradLoops {
  const char* vectors;  // what they are of

  // to = Bᵀ p B of `count` patches from tile `first` on.
  void (*read_patches)(const TiledImages& of, const void* x, std::int64_t first, std::int64_t count, std::int64_t room,
                       float* to);
  // to = A d' Aᵀ of `count` tiles from tile `first` on.
  void (*read_tiles)(const TiledImages& of, const void* dy, std::int64_t first, std::int64_t count, std::int64_t room,
                     float* to);
  // Pixels of block `block` = Aᵀ m A of [P][room][16], plus its 16 of `bias` unless that is null, at least 0 if `relu`.
  void (*write_tiles)(const TiledImages& of, const float* m, std::int64_t block, std::int64_t first, std::int64_t count,
                      std::int64_t room, const float* bias, bool relu, void* y);
  // G w Gᵀ of the weights w [window·window][16] from one input to 16 outputs; points lie `point` floats apart.
  void (*transform_weights)(std::int64_t window, const float* w, std::int64_t point, float* to);
  // dw [window·window][16], taps `tap` floats apart, += Gᵀ s G of one input and 16 outputs; points of s lie `point` floats
  // apart.
  void (*add_weights)(std::int64_t window, const float* s, std::int64_t point, std::int64_t tap, float* dw);
  // m [output_blocks][P][room][16] = Σ over inputs v·u, of `count` tiles of the `blocks` blocks of v, whose
  // points lie v_point floats apart, and u [output_blocks][P][16·blocks][16]. Reads of v and writes to m up to kSpareTiles
  // more.
  void (*multiply)(std::int64_t window, std::int64_t count, std::int64_t blocks, std::int64_t output_blocks,
                   std::int64_t room, const float* v, std::int64_t v_point, const float* u, float* m, const Ahead& ahead);
  // s [P][16][16·output_blocks] = Σ over `count` tiles v·z, of one block of v, whose points lie v_point floats apart, and
  // the output_blocks blocks of z from z on, likewise.
  void (*sum_products)(std::int64_t window, std::int64_t count, std::int64_t output_blocks, std::int64_t room,
                       const float* v, std::int64_t v_point, const float* z, std::int64_t z_point, float* s,
                       const Ahead& ahead);
};

// Those of the widest vectors that this processor has; null where it has none that they are made for.
const WinogradLoops* FindWinogradLoops();

extern const WinogradLoops kWinogradLoopsAvx512, kWinogradLoopsAvx2;

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_WINOGRAD_LOOPS_H_
