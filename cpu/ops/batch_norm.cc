#include "cpu/ops/batch_norm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cpu/ops/batch_norm_tiles.h"
#include "cpu/ops/element.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/batch_norm.h"
#include "program/op_traits.h"

namespace colonnade::cpu {

namespace {

// Calls body(tile, its index) for each tile.
template <class Body>
void ForTiles(const ChannelTiles& tiles, int threads, const Body& body) {
  ParallelFor(threads, tiles.count(), [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) body(ChannelTile(tiles, index), index);
  });
}

// Adds the sums of tiles, in their order, to sums [G,2,C].
void AddTiles(const ChannelTiles& tiles, const LaneSums* of_tiles, double* sums) {
  std::fill_n(sums, tiles.groups * 2 * tiles.channels, 0.0);
  for (int64_t index = 0; index < tiles.count(); ++index) {
    const ChannelTile tile(tiles, index);
    for (int64_t b = 0; b < tile.blocks; ++b) {
      const LaneSums& of_tile = of_tiles[index * tiles.tile_blocks + b];
      const int64_t block = tile.first_block + b;
      double* to = sums + tiles.SumOf(tile.group, block * tiles.width);
      for (int64_t l = 0; l < tiles.WidthOf(block); ++l) {
        to[l] += of_tile.first[l];
        to[tiles.channels + l] += of_tile.second[l];
      }
    }
  }
}

// Calls put(i, Σ over groups) for each i of the [2,C] sums of a group.
template <class Put>
void ForTotals(const ChannelTiles& tiles, const double* sums, const Put& put) {
  for (int64_t i = 0; i < 2 * tiles.channels; ++i) {
    double total = 0;
    for (int64_t g = 0; g < tiles.groups; ++g) total += sums[2 * g * tiles.channels + i];
    put(i, total);
  }
}

// Calls put(block of the tile, lanes, channel) for the channels of a tile.
template <class Put>
void ForChannels(const ChannelTiles& tiles, const ChannelTile& tile, const Put& put) {
  for (int64_t b = 0; b < tile.blocks; ++b) {
    const int64_t block = tile.first_block + b;
    for (int64_t c = 0; c < tiles.WidthOf(block); ++c) {
      put(b, tiles.width == 1 ? Lanes{0, kChannelBlock} : Lanes{c, c + 1}, block * tiles.width + c);
    }
  }
}

template <class Op>
program::Normalisation At(const Op& op, const ChannelTiles& tiles, const ChannelTile& tile, const double* sums,
                          int64_t channel) {
  const double* sum = sums + tiles.SumOf(tile.group, channel);
  return program::NormalisationOf(sum[0], sum[tiles.channels], op.count, op.epsilon);
}

// One for each block of a tile.
using TileLines = std::array<Lines, kMaxBlocks>;
using TileNormalisations = std::array<LaneNormalisations, kMaxBlocks>;

template <class Op>
void Set(TileNormalisations& lanes, const Op& op, const ChannelTiles& tiles, const ChannelTile& tile, const double* sums) {
  ForChannels(tiles, tile, [&](int64_t block, Lanes of_channel, int64_t c) {
    const program::Normalisation at = At(op, tiles, tile, sums, c);
    Fill(lanes[block].mean, of_channel, at.mean);
    Fill(lanes[block].scale, of_channel, at.scale);
  });
}
// Those of w·x̂ + b: the same ones forward and where a ReLU is recalled.
template <class Op>
void Set(TileLines& lines, const Op& op, const ChannelTiles& tiles, const ChannelTile& tile, const double* sums,
         const float* w, const float* b) {
  ForChannels(tiles, tile, [&](int64_t block, Lanes lanes, int64_t c) {
    const program::Normalisation at = At(op, tiles, tile, sums, c);
    lines[block].Set(lanes, at.mean, at.scale * w[c], b[c]);
  });
}

// Sums of each block of each tile.
int64_t PartialBytes(const ChannelTiles& tiles) {
  return tiles.count() * tiles.tile_blocks * static_cast<int64_t>(sizeof(LaneSums));
}
// Sums of tiles, which add(tile, its zeros) makes, added to `sums`.
template <class Add>
void SumTiles(const ChannelTiles& tiles, int threads, char* workspace, double* sums, const Add& add) {
  LaneSums* partial = reinterpret_cast<LaneSums*>(workspace);
  ForTiles(tiles, threads, [&](const ChannelTile& tile, int64_t index) {
    LaneSums* own = partial + index * tiles.tile_blocks;
    std::fill_n(own, tile.blocks, LaneSums());
    add(tile, own);
    for (int64_t b = 0; tiles.width == 1 && b < tile.blocks; ++b) own[b].Fold();
  });
  AddTiles(tiles, partial, sums);
}

}  // namespace

PreparedKernel Prepare(const program::BatchNormSums& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const ChannelTiles tiles(context.view(0), context.view(1));
    const bool totals_groups = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel(
        [tiles, totals_groups, context](const RunArguments& run) {
          const T* x = DataOf<const T>(run, context, 0);
          double* sums = DataOf<double>(run, context, 1);
          SumTiles(tiles, context.threads, run.workspace, sums,
                   [&](const ChannelTile& tile, LaneSums* own) { SumTile(tiles, tile, x, own); });
          if (totals_groups) {
            double* totals = DataOf<double>(run, context, 2);
            ForTotals(tiles, sums, [&](int64_t i, double total) { totals[i] = total; });
          }
          return absl::OkStatus();
        },
        PartialBytes(tiles));
  });
}

PreparedKernel Prepare(const program::BatchNormForward& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const bool adds = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel([op, adds, tiles = ChannelTiles(context.view(0), context.view(1)), context](const RunArguments& run) {
      const int y = static_cast<int>(context.operands.size()) - 1;
      const float *w = DataOf<const float>(run, context, 2), *b = DataOf<const float>(run, context, 3);
      const T* addend = adds ? DataOf<const T>(run, context, 4) : nullptr;
      const double* sums = DataOf<const double>(run, context, 1);
      const float floor = op.relu ? 0 : -std::numeric_limits<float>::infinity();
      ForTiles(tiles, context.threads, [&](const ChannelTile& tile, int64_t) {
        TileLines lines;
        Set(lines, op, tiles, tile, sums, w, b);
        MapTile(tiles, tile, lines.data(), floor, DataOf<const T>(run, context, 0), addend, DataOf<T>(run, context, y));
      });
      return absl::OkStatus();
    });
  });
}

PreparedKernel Prepare(const program::BatchNormTrack& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const bool gated = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel([op, gated, channels = context.view(1).shape[0], context](const RunArguments& run) {
      if (gated && DataOf<const double>(run, context, 3)[program::Gate::kIsOpen] == 0) return absl::OkStatus();
      const double* sums = DataOf<const double>(run, context, 0);
      float *mean = DataOf<float>(run, context, 1), *var = DataOf<float>(run, context, 2);
      for (int64_t c = 0; c < channels; ++c) {
        const program::ChannelMoments batch = program::ComputeMoments(sums[c], sums[channels + c], op.count);
        mean[c] = static_cast<float>(program::Tracked(mean[c], batch.mean, op.momentum));
        var[c] = static_cast<float>(program::Tracked(var[c], program::Unbiased(batch.variance, op.count), op.momentum));
      }
      return absl::OkStatus();
    });
  });
}

PreparedKernel Prepare(const program::BatchNormRecall&, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [](const TaskContext& context) -> PreparedKernel {
    return MakeKernel([channels = context.view(0).shape[0], context](const RunArguments& run) {
      const float *mean = DataOf<const float>(run, context, 0), *var = DataOf<const float>(run, context, 1);
      double* sums = DataOf<double>(run, context, 2);
      for (int64_t c = 0; c < channels; ++c) {
        const double m = mean[c];
        sums[c] = m;
        sums[channels + c] = var[c] + m * m;
      }
      return absl::OkStatus();
    });
  });
}

namespace {

// Folded weights and bias are of T.
template <class T>
PreparedKernel PrepareFold(T, const program::BatchNormFold& op, const TaskContext& context) {
  const program::Shape& shape = context.view(0).shape;
  const int64_t channels = shape[0], of_channel = program::ElementCount(shape) / channels;
  const bool adds_bias = program::HasOptionalOperands(op, context.operands.size());
  return MakeKernel([op, channels, of_channel, adds_bias, context](const RunArguments& run) {
    const int folded = static_cast<int>(context.operands.size()) - 2;
    const auto at = [&](int use) { return DataOf<const float>(run, context, use); };
    const float *weights = at(0), *mean = at(1), *var = at(2), *w = at(3), *b = at(4), *bias = adds_bias ? at(5) : nullptr;
    T *to = DataOf<T>(run, context, folded), *to_bias = DataOf<T>(run, context, folded + 1);
    ParallelFor(context.threads, channels, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const double factor = program::FoldedFactor(w[c], var[c], op.epsilon);
        to_bias[c] = static_cast<T>(b[c] + ((bias != nullptr ? bias[c] : 0.0) - mean[c]) * factor);
        const auto scale = static_cast<float>(factor);
        for (int64_t i = c * of_channel; i < (c + 1) * of_channel; ++i) to[i] = static_cast<T>(scale * weights[i]);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

PreparedKernel Prepare(const program::BatchNormFold& op, const TaskContext& outer) {
  return PrepareInRows(outer, [&op](const TaskContext& context) {
    return WithElement(context.operands.back().view.dtype, [&](auto zero) { return PrepareFold(zero, op, context); });
  });
}
namespace {

// dsums, dw and db, the last three operands, of what add(tile, its normalisations, its zeros) makes.
template <class Op, class Add>
void SumGradientTiles(const Op& op, const ChannelTiles& tiles, const TaskContext& context, const RunArguments& run,
                      const double* sums, const Add& add) {
  const int outputs = static_cast<int>(context.operands.size()) - 3;
  double* dsums = DataOf<double>(run, context, outputs);
  SumTiles(tiles, context.threads, run.workspace, dsums, [&](const ChannelTile& tile, LaneSums* own) {
    TileNormalisations lanes;
    Set(lanes, op, tiles, tile, sums);
    add(tile, lanes.data(), own);
  });
  float *dw = DataOf<float>(run, context, outputs + 1), *db = DataOf<float>(run, context, outputs + 2);
  ForTotals(tiles, dsums, [&](int64_t i, double total) {
    float& gradient = i < tiles.channels ? db[i] : dw[i - tiles.channels];
    gradient = static_cast<float>(total);
  });
}

}  // namespace

PreparedKernel Prepare(const program::BatchNormBackwardSums& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const ChannelTiles tiles(context.view(0), context.view(2));
    const bool recalls = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel(
        [op, tiles, recalls, context](const RunArguments& run) {
          const T *x = DataOf<const T>(run, context, 0), *dy = DataOf<const T>(run, context, 1);
          const double* sums = DataOf<const double>(run, context, 2);
          const float* w = recalls ? DataOf<const float>(run, context, 3) : nullptr;
          const float* b = recalls ? DataOf<const float>(run, context, 4) : nullptr;
          SumGradientTiles(op, tiles, context, run, sums,
                           [&](const ChannelTile& tile, const LaneNormalisations* lanes, LaneSums* own) {
                             if (!recalls) return SumGradientTile(tiles, tile, lanes, x, dy, own);
                             TileLines lines;
                             Set(lines, op, tiles, tile, sums, w, b);
                             SumRecalledTile(tiles, tile, lanes, lines.data(), x, dy, own);
                           });
          return absl::OkStatus();
        },
        PartialBytes(tiles));
  });
}

PreparedKernel Prepare(const program::BatchNormMaskedSums& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const ChannelTiles tiles(context.view(0), context.view(3));
    const bool adds = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel(
        [op, tiles, adds, context](const RunArguments& run) {
          const int dz = static_cast<int>(context.operands.size()) - 4;
          const T* x = DataOf<const T>(run, context, 0);
          const MaskedGradient<T> masked = {DataOf<const T>(run, context, 1), DataOf<const T>(run, context, 2),
                                            adds ? DataOf<const T>(run, context, 4) : nullptr, DataOf<T>(run, context, dz)};
          SumGradientTiles(op, tiles, context, run, DataOf<const double>(run, context, 3),
                           [&](const ChannelTile& tile, const LaneNormalisations* lanes, LaneSums* own) {
                             SumMaskedTile(tiles, tile, lanes, x, masked, own);
                           });
          return absl::OkStatus();
        },
        PartialBytes(tiles));
  });
}

// dx = w·scale·(dy − Σdy/count − x̂·Σdy·x̂/count).
PreparedKernel Prepare(const program::BatchNormBackward& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const bool recalls = program::HasOptionalOperands(op, context.operands.size());
    return MakeKernel(
        [op, recalls, tiles = ChannelTiles(context.view(0), context.view(2)), context](const RunArguments& run) {
          const int dx = static_cast<int>(context.operands.size()) - 1;
          const auto count = static_cast<double>(op.count);
          const double* dsums = DataOf<const double>(run, context, 3);
          const float* w = DataOf<const float>(run, context, 4);
          const float* b = recalls ? DataOf<const float>(run, context, 5) : nullptr;
          const double* sums = DataOf<const double>(run, context, 2);
          ForTiles(tiles, context.threads, [&](const ChannelTile& tile, int64_t) {
            TileLines lines, forward;
            ForChannels(tiles, tile, [&](int64_t block, Lanes lanes, int64_t c) {
              const program::Normalisation at = At(op, tiles, tile, sums, c);
              const double* dsum = dsums + tiles.SumOf(tile.group, c);
              const double mean_dy = dsum[0] / count, mean_dy_x = dsum[tiles.channels] / count;
              lines[block].Set(lanes, at.mean, -at.scale * mean_dy_x, -mean_dy);
              Fill(lines[block].scale, lanes, static_cast<float>(at.scale * w[c]));
            });
            if (b != nullptr) Set(forward, op, tiles, tile, sums, w, b);
            MapGradientTile(tiles, tile, lines.data(), b != nullptr ? forward.data() : nullptr,
                            DataOf<const T>(run, context, 0), DataOf<const T>(run, context, 1), DataOf<T>(run, context, dx));
          });
          return absl::OkStatus();
        });
  });
}

}  // namespace colonnade::cpu
