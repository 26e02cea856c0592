// The loops of batch normalisation over tiles of tensors, by lane: what vectors of 16 floats are made of. Tensors are of T,
// float or BFloat16.
//
// Plain values and pure functions; threads may call them on tiles of their own.
#ifndef COLONNADE_CPU_BATCH_NORM_TILES_H_
#define COLONNADE_CPU_BATCH_NORM_TILES_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/load/view.h"
#include "cpu/ops/clones.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

inline constexpr int64_t kTileElements = 32768;  // of one operand: what one thread works on at a time
inline constexpr int64_t kRunElements = 8192;    // about as many of a tile lie side by side where images are small
inline constexpr int64_t kMaxBlocks = 16;        // blocks of channels in a tile

// Dense tensors [n,C,…] of one layout, cut into groups of samples and these into tiles: some blocks of channels of a range
// of the pixels, sample after sample. The `width` channels of a block are neighbours in memory: 16 of blocked images and of
// matrices, whose last block may have fewer; 1 of row-major images.
struct ChannelTiles {
  int64_t groups, samples, channels, pixels;  // samples of one group
  int64_t width, blocks;
  int64_t tile_blocks, tile_pixels, across, along;  // tiles across the blocks and along the pixels

  // Cuts tensors like `x`, whose sums are like `sums`, into tiles.
  ChannelTiles(const View& x, const View& sums)
      : groups(sums.shape[0]),
        samples(x.shape[0] / sums.shape[0]),
        channels(x.shape[1]),
        pixels(program::ElementCount(x.shape) / (x.shape[0] * x.shape[1])),
        width(x.kind == View::Kind::kBlocked || pixels == 1 ? kChannelBlock : 1),
        blocks(program::CeilDiv(channels, width)),
        tile_blocks(EvenPart(blocks, std::clamp<int64_t>(kRunElements / (pixels * width), 1, kMaxBlocks))),
        tile_pixels(EvenPart(samples * pixels, kTileElements / (width * tile_blocks))),
        across(program::CeilDiv(blocks, tile_blocks)),
        along(program::CeilDiv(samples * pixels, tile_pixels)) {}

  int64_t count() const { return groups * across * along; }
  int64_t WidthOf(int64_t block) const { return std::min(width, channels - block * width); }
  // Returns the index of the first sum of channel c of group g; the second lies `channels` behind it.
  int64_t SumOf(int64_t g, int64_t c) const { return 2 * g * channels + c; }
};

struct ChannelTile {
  int64_t group, first_block, blocks, begin, end;  // pixels of the group

  ChannelTile(const ChannelTiles& of, int64_t index) {
    group = index / of.along / of.across;
    first_block = index / of.along % of.across * of.tile_blocks;
    blocks = std::min(of.tile_blocks, of.blocks - first_block);
    begin = index % of.along * of.tile_pixels;
    end = std::min(begin + of.tile_pixels, of.samples * of.pixels);
  }
};

template <class T>
using ByLane = std::array<T, kChannelBlock>;

// Two sums of each lane of a block. They are in double from the first product on: those of f32 values are exact in it, as
// program/formulas/batch_norm.h promises, and memory is slower than the additions.
struct LaneSums {
  alignas(64) ByLane<double> first = {}, second = {};

  void Add(const LaneSums& other) {
    for (int64_t l = 0; l < kChannelBlock; ++l) first[l] += other.first[l];
    for (int64_t l = 0; l < kChannelBlock; ++l) second[l] += other.second[l];
  }
  // Adds up all lanes into lane 0, for a block of one channel.
  void Fold() {
    for (int64_t l = 1; l < kChannelBlock; ++l) {
      first[0] += first[l];
      second[0] += second[l];
    }
  }
};

// The lanes [begin, end) of a block that hold one channel.
struct Lanes {
  int64_t begin, end;
};
template <class T>
void Fill(ByLane<T>& by_lane, Lanes lanes, T value) {
  std::fill(by_lane.begin() + lanes.begin, by_lane.begin() + lanes.end, value);
}
struct LaneNormalisations {
  alignas(64) ByLane<double> mean = {}, scale = {};
};

// The map of each element, in float: (x − mean)·slope + shift. The mean is rounded and `shift` makes up for it: x − mean is
// then exact where x is near the mean, so that means far from zero cost no digits.
struct Lines {
  alignas(64) ByLane<float> mean = {}, slope = {}, shift = {}, scale = {};

  void Set(Lanes lanes, double exact_mean, double exact_slope, double exact_shift) {
    const auto rounded = static_cast<float>(exact_mean);
    Fill(mean, lanes, rounded);
    Fill(slope, lanes, static_cast<float>(exact_slope));
    Fill(shift, lanes, static_cast<float>(exact_shift + exact_slope * (rounded - exact_mean)));
  }
  COLONNADE_INLINE float At(float x, int64_t l) const { return (x - mean[l]) * slope[l] + shift[l]; }
};

// The operands of BatchNormMaskedSums that are shaped like y; `more` may be null.
template <class T>
struct MaskedGradient {
  const T *y, *dy, *more;
  T* dz;
};

// Adds Σx and Σx² of a tile to `sums`, by block.
template <class T>
void SumTile(const ChannelTiles& of, const ChannelTile& tile, const T* x, LaneSums* sums);

// Adds Σdy and Σdy·x̂ of a tile to `sums`, by block; the two functions below add Σdz and Σdz·x̂.
template <class T>
void SumGradientTile(const ChannelTiles& of, const ChannelTile& tile, const LaneNormalisations* lanes, const T* x,
                     const T* dy, LaneSums* sums);
// dz is dy where the line of x is above zero, else 0.
template <class T>
void SumRecalledTile(const ChannelTiles& of, const ChannelTile& tile, const LaneNormalisations* lanes,
                     const Lines* lines_of_blocks, const T* x, const T* dy, LaneSums* sums);
// Writes dz; the sums are of what is written.
template <class T>
void SumMaskedTile(const ChannelTiles& of, const ChannelTile& tile, const LaneNormalisations* lanes, const T* x,
                   const MaskedGradient<T>& masked, LaneSums* sums);

// y is the line of x, rounded, plus `addend` unless that is null, but at least `floor`.
template <class T>
void MapTile(const ChannelTiles& of, const ChannelTile& tile, const Lines* lines_of_blocks, float floor, const T* x,
             const T* addend, T* y);
// dx = (dy + the line of x)·scale; dy counts as 0 where the line `recalled` of x, unless that is null, is not above zero.
template <class T>
void MapGradientTile(const ChannelTiles& of, const ChannelTile& tile, const Lines* lines_of_blocks, const Lines* recalled,
                     const T* x, const T* dy, T* dx);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_BATCH_NORM_TILES_H_
