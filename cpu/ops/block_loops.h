// Loops over images in blocks of 16 channels, compiled once for each instruction set (block_loops_avx512.cc,
// block_loops_avx2.cc).
//
// A vector holds neighbouring channels of a pixel, so windows of channels are sums of vectors that are shifted in
// registers. Pure functions; threads may call them on pixels of their own.
#ifndef COLONNADE_CPU_BLOCK_LOOPS_H_
#define COLONNADE_CPU_BLOCK_LOOPS_H_

#include <cstdint>

#include "cpu/channel_block.h"

namespace colonnade::cpu {

// Some pixels of an image, with one group of its channels, which windows do not leave. Elements are floats, or bfloat16.
struct BlockedPixels {
  bool bf16;
  std::int64_t blocks, pixels;
  std::int64_t block_stride;  // elements from one block to the next
};

// The attributes of a program::LrnForward with windows of 5 channels and beta = 3/4. Sums and powers are taken in float.
struct FiveChannelLrn {
  float alpha_over_size, k;
};

// Returns how many floats of scratch lrn_backward needs.
[[gnu::always_inline]] inline std::int64_t LrnScratchFloats(const BlockedPixels& of) {
  return 2 * of.blocks * of.pixels * kChannelBlock;
}

// How the windows of a max pooling lie over the cells of one axis. Each window has a cell, and its cells are neighbours.
struct PoolAxis {
  std::int64_t size, stride, pad, cells, windows;
};
struct BlockPooling {
  PoolAxis rows, columns;

  // Elements of one block of channels: in a row of x, in all of x, in all of y.
  [[gnu::always_inline]] std::int64_t x_row() const { return columns.cells * kChannelBlock; }
  [[gnu::always_inline]] std::int64_t x_plane() const { return rows.cells * x_row(); }
  [[gnu::always_inline]] std::int64_t y_plane() const { return rows.windows * columns.windows * kChannelBlock; }
};

struct BlockLoops {
  const char* vectors;  // the instruction set of their vectors: "AVX-512"

  // Computes y from x; both point to the first pixel of the first block.
  void (*lrn_forward)(const BlockedPixels& of, const FiveChannelLrn& lrn, const void* x, void* y);
  // Computes dx from x and dy. `scratch` holds LrnScratchFloats(of) floats.
  void (*lrn_backward)(const BlockedPixels& of, const FiveChannelLrn& lrn, const void* x, const void* dy, float* scratch,
                       void* dx);
  // Pools the maxima y of bfloat16 planes of x, which lie one behind the other, and unless `argmax` is null the place of
  // each maximum in its window, in row-major order. A NaN is a maximum where it comes first.
  void (*take_maxima)(const BlockPooling& of, std::int64_t planes, const std::uint16_t* x, std::uint16_t* y,
                      std::uint8_t* argmax);
  // Computes dx from argmax and dy: each cell gets the sum of the gradients of the windows whose maximum it is, taken in
  // float and rounded once. `sums` holds x_row() floats.
  void (*give_gradients)(const BlockPooling& of, std::int64_t planes, const std::uint8_t* argmax, const std::uint16_t* dy,
                         float* sums, std::uint16_t* dx);
};

// Returns the loops for the widest vectors that this processor has; null where it has none that they are compiled for.
const BlockLoops* FindBlockLoops();

extern const BlockLoops kBlockLoopsAvx512, kBlockLoopsAvx2;

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_BLOCK_LOOPS_H_
