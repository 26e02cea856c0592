#include "cpu/ops/batch_norm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cpu/ops/clones.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/batch_norm.h"

namespace colonnade::cpu {

namespace {

constexpr int64_t kLanes = kChannelBlock;
constexpr int64_t kPieceElements = 32768;  // of one operand: what one thread works on at a time
constexpr int64_t kRunElements = 8192;     // that a piece has side by side in memory, where images are small
constexpr int64_t kMaxBlocks = 16;         // of channels, of a piece

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
// `total` in equal parts of about `part`.
int64_t EvenPart(int64_t total, int64_t part) { return CeilDiv(total, CeilDiv(total, part)); }

// Dense tensors [n,C,…] of one layout, cut into groups of samples and these into pieces: some blocks of channels of a range
// of the pixels, sample after sample. The `width` channels of a block are neighbours in memory: 16 of blocked images and of
// matrices, whose last block may have fewer; 1 of row-major images.
struct Pieces {
  int64_t groups, samples, channels, pixels;  // samples of one group
  int64_t width, blocks;
  int64_t piece_blocks, piece_pixels, across, along;  // pieces across the blocks and along the pixels

  // The pieces of tensors like `x` that have sums like `sums`.
  Pieces(const View& x, const View& sums)
      : groups(sums.shape[0]),
        samples(x.shape[0] / sums.shape[0]),
        channels(x.shape[1]),
        pixels(program::ElementCount(x.shape) / (x.shape[0] * x.shape[1])),
        width(x.kind == View::Kind::kBlocked || pixels == 1 ? kLanes : 1),
        blocks(CeilDiv(channels, width)),
        piece_blocks(EvenPart(blocks, std::clamp<int64_t>(kRunElements / (pixels * width), 1, kMaxBlocks))),
        piece_pixels(EvenPart(samples * pixels, kPieceElements / (width * piece_blocks))),
        across(CeilDiv(blocks, piece_blocks)),
        along(CeilDiv(samples * pixels, piece_pixels)) {}

  int64_t count() const { return groups * across * along; }
  int64_t WidthOf(int64_t block) const { return std::min(width, channels - block * width); }
  // Where the first sum of channel c of group g is; the second is `channels` behind it.
  int64_t SumOf(int64_t g, int64_t c) const { return 2 * g * channels + c; }
};

struct Piece {
  int64_t group, first_block, blocks, begin, end;  // pixels of the group

  Piece(const Pieces& of, int64_t index) {
    group = index / of.along / of.across;
    first_block = index / of.along % of.across * of.piece_blocks;
    blocks = std::min(of.piece_blocks, of.blocks - first_block);
    begin = index % of.along * of.piece_pixels;
    end = std::min(begin + of.piece_pixels, of.samples * of.pixels);
  }
};

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

template <class T>
using ByLane = std::array<T, kLanes>;

// Two sums of each lane of a block. They are in double from the first product on: those of f32 values are exact in it, as
// program/batch_norm.h promises, and memory is slower than the additions.
struct LaneSums {
  alignas(64) ByLane<double> first = {}, second = {};

  void Add(const LaneSums& other) {
    for (int64_t l = 0; l < kLanes; ++l) first[l] += other.first[l];
    for (int64_t l = 0; l < kLanes; ++l) second[l] += other.second[l];
  }
  // Those of a block of one channel.
  void Fold() {
    for (int64_t l = 1; l < kLanes; ++l) {
      first[0] += first[l];
      second[0] += second[l];
    }
  }
};

COLONNADE_VECTOR_CLONES
void SumPiece(const Pieces& of, const Piece& piece, const float* x, LaneSums* sums) {
  for (Ranges range(of, piece); range.Next();) {
    LaneSums s;
    const float* from = x + range.offset;
    for (int64_t i = 0; i < range.whole; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const double v = from[i + l];
        s.first[l] += v;
        s.second[l] += v * v;
      }
    }
    for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) {
      const double v = from[i];
      s.first[l] += v;
      s.second[l] += v * v;
    }
    sums[range.block].Add(s);
  }
}

// Those of one channel.
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

// Σdy and Σdy·x̂.
COLONNADE_VECTOR_CLONES
void SumGradientPiece(const Pieces& of, const Piece& piece, const LaneNormalisations* lanes, const float* x, const float* dy,
                      LaneSums* sums) {
  for (Ranges range(of, piece); range.Next();) {
    LaneSums s;
    alignas(64) const ByLane<double> mean = lanes[range.block].mean;
    const float *from = x + range.offset, *d = dy + range.offset;
    for (int64_t i = 0; i < range.whole; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const double v = d[i + l];
        s.first[l] += v;
        s.second[l] += v * (from[i + l] - mean[l]);
      }
    }
    for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) {
      const double v = d[i];
      s.first[l] += v;
      s.second[l] += v * (from[i] - mean[l]);
    }
    for (int64_t l = 0; l < kLanes; ++l) s.second[l] *= lanes[range.block].scale[l];
    sums[range.block].Add(s);
  }
}

// What is done to each element, in float: (x − mean)·slope + shift. The mean is rounded and `shift` makes up for it: x −
// mean is then exact where x is near the mean, so that means far from zero cost no digits.
struct Lines {
  alignas(64) ByLane<float> mean, slope, shift, scale;

  void Set(Lanes lanes, double exact_mean, double exact_slope, double exact_shift) {
    const auto rounded = static_cast<float>(exact_mean);
    Fill(mean, lanes, rounded);
    Fill(slope, lanes, static_cast<float>(exact_slope));
    Fill(shift, lanes, static_cast<float>(exact_shift + exact_slope * (rounded - exact_mean)));
  }
};

// y is that, but at least `floor`.
COLONNADE_VECTOR_CLONES
void MapPiece(const Pieces& of, const Piece& piece, const Lines* lines_of_blocks, float floor, const float* x, float* y) {
  for (Ranges range(of, piece); range.Next();) {
    const Lines lines = lines_of_blocks[range.block];
    const float* __restrict from = x + range.offset;
    float* __restrict to = y + range.offset;
    for (int64_t i = 0; i < range.whole; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const float v = (from[i + l] - lines.mean[l]) * lines.slope[l] + lines.shift[l];
        to[i + l] = v < floor ? floor : v;
      }
    }
    for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) {
      const float v = (from[i] - lines.mean[l]) * lines.slope[l] + lines.shift[l];
      to[i] = v < floor ? floor : v;
    }
  }
}

// dx = (dy + that of x)·scale.
COLONNADE_VECTOR_CLONES
void MapGradientPiece(const Pieces& of, const Piece& piece, const Lines* lines_of_blocks, const float* x, const float* dy,
                      float* dx) {
  for (Ranges range(of, piece); range.Next();) {
    const Lines lines = lines_of_blocks[range.block];
    const float* __restrict from = x + range.offset, * __restrict d = dy + range.offset;
    float* __restrict to = dx + range.offset;
    for (int64_t i = 0; i < range.whole; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        to[i + l] = ((from[i + l] - lines.mean[l]) * lines.slope[l] + lines.shift[l] + d[i + l]) * lines.scale[l];
      }
    }
    for (int64_t i = range.whole, l = 0; i < range.size; ++i, ++l) {
      to[i] = ((from[i] - lines.mean[l]) * lines.slope[l] + lines.shift[l] + d[i]) * lines.scale[l];
    }
  }
}

// Calls body(piece, its index) for each piece.
template <class Body>
void ForPieces(const Pieces& pieces, int threads, const Body& body) {
  ParallelFor(threads, pieces.count(), [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) body(Piece(pieces, index), index);
  });
}

// Adds the sums of pieces, in their order, to sums [G,2,C].
void AddPieces(const Pieces& pieces, const LaneSums* of_pieces, double* sums) {
  std::fill_n(sums, pieces.groups * 2 * pieces.channels, 0.0);
  for (int64_t index = 0; index < pieces.count(); ++index) {
    const Piece piece(pieces, index);
    for (int64_t b = 0; b < piece.blocks; ++b) {
      const LaneSums& of_piece = of_pieces[index * pieces.piece_blocks + b];
      const int64_t block = piece.first_block + b;
      double* to = sums + pieces.SumOf(piece.group, block * pieces.width);
      for (int64_t l = 0; l < pieces.WidthOf(block); ++l) {
        to[l] += of_piece.first[l];
        to[pieces.channels + l] += of_piece.second[l];
      }
    }
  }
}

// Calls put(i, Σ over groups) for each i of the [2,C] sums of a group.
template <class Put>
void ForTotals(const Pieces& pieces, const double* sums, const Put& put) {
  for (int64_t i = 0; i < 2 * pieces.channels; ++i) {
    double total = 0;
    for (int64_t g = 0; g < pieces.groups; ++g) total += sums[2 * g * pieces.channels + i];
    put(i, total);
  }
}

// Calls put(block of the piece, lanes, channel) for the channels of a piece.
template <class Put>
void ForChannels(const Pieces& pieces, const Piece& piece, const Put& put) {
  for (int64_t b = 0; b < piece.blocks; ++b) {
    const int64_t block = piece.first_block + b;
    for (int64_t c = 0; c < pieces.WidthOf(block); ++c) {
      put(b, pieces.width == 1 ? Lanes{0, kLanes} : Lanes{c, c + 1}, block * pieces.width + c);
    }
  }
}

template <class Op>
program::Normalisation At(const Op& op, const Pieces& pieces, const Piece& piece, const double* sums, int64_t channel) {
  const double* sum = sums + pieces.SumOf(piece.group, channel);
  return program::NormalisationOf(sum[0], sum[pieces.channels], op.count, op.epsilon);
}

// Sums of each block of each piece.
int64_t PartialBytes(const Pieces& pieces) {
  return pieces.count() * pieces.piece_blocks * static_cast<int64_t>(sizeof(LaneSums));
}
// Sums of pieces, which add(piece, its zeros) makes, added to `sums`.
template <class Add>
void SumPieces(const Pieces& pieces, int threads, char* workspace, double* sums, const Add& add) {
  LaneSums* partial = reinterpret_cast<LaneSums*>(workspace);
  ForPieces(pieces, threads, [&](const Piece& piece, int64_t index) {
    LaneSums* own = partial + index * pieces.piece_blocks;
    std::fill_n(own, piece.blocks, LaneSums());
    add(piece, own);
    for (int64_t b = 0; pieces.width == 1 && b < piece.blocks; ++b) own[b].Fold();
  });
  AddPieces(pieces, partial, sums);
}

}  // namespace

PreparedKernel Prepare(const program::BatchNormSums&, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [](const TaskContext& context) -> PreparedKernel {
    const Pieces pieces(context.view(0), context.view(1));
    return KernelOf(
        [pieces, context](const RunArguments& run) {
          const float* x = DataOf<const float>(run, context, 0);
          double* sums = DataOf<double>(run, context, 1);
          SumPieces(pieces, context.threads, run.workspace, sums,
                    [&](const Piece& piece, LaneSums* own) { SumPiece(pieces, piece, x, own); });
          if (context.operands.size() == 3) {
            double* totals = DataOf<double>(run, context, 2);
            ForTotals(pieces, sums, [&](int64_t i, double total) { totals[i] = total; });
          }
          return absl::OkStatus();
        },
        PartialBytes(pieces));
  });
}

PreparedKernel Prepare(const program::BatchNormForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    return KernelOf([op, pieces = Pieces(context.view(0), context.view(1)), context](const RunArguments& run) {
      const float *w = DataOf<const float>(run, context, 2), *b = DataOf<const float>(run, context, 3);
      const double* sums = DataOf<const double>(run, context, 1);
      const float floor = op.relu ? 0 : -std::numeric_limits<float>::infinity();
      ForPieces(pieces, context.threads, [&](const Piece& piece, int64_t) {
        std::array<Lines, kMaxBlocks> lines;
        ForChannels(pieces, piece, [&](int64_t block, Lanes lanes, int64_t c) {
          const program::Normalisation at = At(op, pieces, piece, sums, c);
          lines[block].Set(lanes, at.mean, at.scale * w[c], b[c]);
        });
        MapPiece(pieces, piece, lines.data(), floor, DataOf<const float>(run, context, 0), DataOf<float>(run, context, 4));
      });
      return absl::OkStatus();
    });
  });
}

PreparedKernel Prepare(const program::BatchNormTrack& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    return KernelOf([op, channels = context.view(1).shape[0], context](const RunArguments& run) {
      const double* sums = DataOf<const double>(run, context, 0);
      float *mean = DataOf<float>(run, context, 1), *var = DataOf<float>(run, context, 2);
      for (int64_t c = 0; c < channels; ++c) {
        const program::ChannelMoments batch = program::MomentsOf(sums[c], sums[channels + c], op.count);
        mean[c] = static_cast<float>(program::Tracked(mean[c], batch.mean, op.momentum));
        var[c] = static_cast<float>(program::Tracked(var[c], program::Unbiased(batch.variance, op.count), op.momentum));
      }
      return absl::OkStatus();
    });
  });
}

PreparedKernel Prepare(const program::BatchNormRecall&, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [](const TaskContext& context) -> PreparedKernel {
    return KernelOf([channels = context.view(0).shape[0], context](const RunArguments& run) {
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

PreparedKernel Prepare(const program::BatchNormBackwardSums& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const Pieces pieces(context.view(0), context.view(2));
    return KernelOf(
        [op, pieces, context](const RunArguments& run) {
          const float *x = DataOf<const float>(run, context, 0), *dy = DataOf<const float>(run, context, 1);
          double* dsums = DataOf<double>(run, context, 3);
          const double* sums = DataOf<const double>(run, context, 2);
          SumPieces(pieces, context.threads, run.workspace, dsums, [&](const Piece& piece, LaneSums* own) {
            std::array<LaneNormalisations, kMaxBlocks> lanes;
            ForChannels(pieces, piece, [&](int64_t block, Lanes of_channel, int64_t c) {
              const program::Normalisation at = At(op, pieces, piece, sums, c);
              Fill(lanes[block].mean, of_channel, at.mean);
              Fill(lanes[block].scale, of_channel, at.scale);
            });
            SumGradientPiece(pieces, piece, lanes.data(), x, dy, own);
          });
          float *dw = DataOf<float>(run, context, 4), *db = DataOf<float>(run, context, 5);
          ForTotals(pieces, dsums, [&](int64_t i, double total) {
            (i < pieces.channels ? db[i] : dw[i - pieces.channels]) = static_cast<float>(total);
          });
          return absl::OkStatus();
        },
        PartialBytes(pieces));
  });
}

// dx = w·scale·(dy − Σdy/count − x̂·Σdy·x̂/count).
PreparedKernel Prepare(const program::BatchNormBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    return KernelOf([op, pieces = Pieces(context.view(0), context.view(2)), context](const RunArguments& run) {
      const auto count = static_cast<double>(op.count);
      const double* dsums = DataOf<const double>(run, context, 3);
      const float* w = DataOf<const float>(run, context, 4);
      const double* sums = DataOf<const double>(run, context, 2);
      ForPieces(pieces, context.threads, [&](const Piece& piece, int64_t) {
        std::array<Lines, kMaxBlocks> lines;
        ForChannels(pieces, piece, [&](int64_t block, Lanes lanes, int64_t c) {
          const program::Normalisation at = At(op, pieces, piece, sums, c);
          const double* dsum = dsums + pieces.SumOf(piece.group, c);
          const double mean_dy = dsum[0] / count, mean_dy_x = dsum[pieces.channels] / count;
          lines[block].Set(lanes, at.mean, -at.scale * mean_dy_x, -mean_dy);
          Fill(lines[block].scale, lanes, static_cast<float>(at.scale * w[c]));
        });
        MapGradientPiece(pieces, piece, lines.data(), DataOf<const float>(run, context, 0),
                         DataOf<const float>(run, context, 1), DataOf<float>(run, context, 5));
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace colonnade::cpu
