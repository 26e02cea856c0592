#include "cpu/ops/batch_norm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cpu/ops/batch_norm_pieces.h"
#include "cpu/ops/element.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/batch_norm.h"

namespace colonnade::cpu {

namespace {

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

// One for each block of a piece.
using PieceLines = std::array<Lines, kMaxBlocks>;
using PieceNormalisations = std::array<LaneNormalisations, kMaxBlocks>;

template <class Op>
void Set(PieceNormalisations& lanes, const Op& op, const Pieces& pieces, const Piece& piece, const double* sums) {
  ForChannels(pieces, piece, [&](int64_t block, Lanes of_channel, int64_t c) {
    const program::Normalisation at = At(op, pieces, piece, sums, c);
    Fill(lanes[block].mean, of_channel, at.mean);
    Fill(lanes[block].scale, of_channel, at.scale);
  });
}
// Those of w·x̂ + b: the same ones forward and where a ReLU is recalled.
template <class Op>
void Set(PieceLines& lines, const Op& op, const Pieces& pieces, const Piece& piece, const double* sums, const float* w,
         const float* b) {
  ForChannels(pieces, piece, [&](int64_t block, Lanes lanes, int64_t c) {
    const program::Normalisation at = At(op, pieces, piece, sums, c);
    lines[block].Set(lanes, at.mean, at.scale * w[c], b[c]);
  });
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
  return PrepareOf(outer, /*element=*/0, []<class T>(T, const TaskContext& context) {
    const Pieces pieces(context.view(0), context.view(1));
    return MakeKernel(
        [pieces, context](const RunArguments& run) {
          const T* x = DataOf<const T>(run, context, 0);
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
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    return MakeKernel([op, pieces = Pieces(context.view(0), context.view(1)), context](const RunArguments& run) {
      const int y = static_cast<int>(context.operands.size()) - 1;
      const float *w = DataOf<const float>(run, context, 2), *b = DataOf<const float>(run, context, 3);
      const T* addend = y > 4 ? DataOf<const T>(run, context, 4) : nullptr;
      const double* sums = DataOf<const double>(run, context, 1);
      const float floor = op.relu ? 0 : -std::numeric_limits<float>::infinity();
      ForPieces(pieces, context.threads, [&](const Piece& piece, int64_t) {
        PieceLines lines;
        Set(lines, op, pieces, piece, sums, w, b);
        MapPiece(pieces, piece, lines.data(), floor, DataOf<const T>(run, context, 0), addend, DataOf<T>(run, context, y));
      });
      return absl::OkStatus();
    });
  });
}

PreparedKernel Prepare(const program::BatchNormTrack& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const bool gated = context.operands.size() == 4;
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
  return MakeKernel([op, channels, of_channel, context](const RunArguments& run) {
    const int folded = static_cast<int>(context.operands.size()) - 2;
    const auto at = [&](int use) { return DataOf<const float>(run, context, use); };
    const float *weights = at(0), *mean = at(1), *var = at(2), *w = at(3), *b = at(4), *bias = folded > 5 ? at(5) : nullptr;
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

// dsums, dw and db, the last three operands, of what add(piece, its normalisations, its zeros) makes.
template <class Op, class Add>
void SumGradientPieces(const Op& op, const Pieces& pieces, const TaskContext& context, const RunArguments& run,
                       const double* sums, const Add& add) {
  const int outputs = static_cast<int>(context.operands.size()) - 3;
  double* dsums = DataOf<double>(run, context, outputs);
  SumPieces(pieces, context.threads, run.workspace, dsums, [&](const Piece& piece, LaneSums* own) {
    PieceNormalisations lanes;
    Set(lanes, op, pieces, piece, sums);
    add(piece, lanes.data(), own);
  });
  float *dw = DataOf<float>(run, context, outputs + 1), *db = DataOf<float>(run, context, outputs + 2);
  ForTotals(pieces, dsums, [&](int64_t i, double total) {
    (i < pieces.channels ? db[i] : dw[i - pieces.channels]) = static_cast<float>(total);
  });
}

}  // namespace

PreparedKernel Prepare(const program::BatchNormBackwardSums& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const Pieces pieces(context.view(0), context.view(2));
    return MakeKernel(
        [op, pieces, context](const RunArguments& run) {
          const T *x = DataOf<const T>(run, context, 0), *dy = DataOf<const T>(run, context, 1);
          const double* sums = DataOf<const double>(run, context, 2);
          const bool recalls = context.operands.size() > 6;
          const float* w = recalls ? DataOf<const float>(run, context, 3) : nullptr;
          const float* b = recalls ? DataOf<const float>(run, context, 4) : nullptr;
          SumGradientPieces(op, pieces, context, run, sums,
                            [&](const Piece& piece, const LaneNormalisations* lanes, LaneSums* own) {
                              if (!recalls) return SumGradientPiece(pieces, piece, lanes, x, dy, own);
                              PieceLines lines;
                              Set(lines, op, pieces, piece, sums, w, b);
                              SumRecalledPiece(pieces, piece, lanes, lines.data(), x, dy, own);
                            });
          return absl::OkStatus();
        },
        PartialBytes(pieces));
  });
}

PreparedKernel Prepare(const program::BatchNormMaskedSums& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    const Pieces pieces(context.view(0), context.view(3));
    return MakeKernel(
        [op, pieces, context](const RunArguments& run) {
          const int dz = static_cast<int>(context.operands.size()) - 4;
          const T* x = DataOf<const T>(run, context, 0);
          const MaskedGradient<T> masked = {DataOf<const T>(run, context, 1), DataOf<const T>(run, context, 2),
                                            dz > 4 ? DataOf<const T>(run, context, 4) : nullptr,
                                            DataOf<T>(run, context, dz)};
          SumGradientPieces(op, pieces, context, run, DataOf<const double>(run, context, 3),
                            [&](const Piece& piece, const LaneNormalisations* lanes, LaneSums* own) {
                              SumMaskedPiece(pieces, piece, lanes, x, masked, own);
                            });
          return absl::OkStatus();
        },
        PartialBytes(pieces));
  });
}

// dx = w·scale·(dy − Σdy/count − x̂·Σdy·x̂/count).
PreparedKernel Prepare(const program::BatchNormBackward& op, const TaskContext& outer) {
  return PrepareOf(outer, /*element=*/0, [&op]<class T>(T, const TaskContext& context) {
    return MakeKernel([op, pieces = Pieces(context.view(0), context.view(2)), context](const RunArguments& run) {
      const int dx = static_cast<int>(context.operands.size()) - 1;
      const auto count = static_cast<double>(op.count);
      const double* dsums = DataOf<const double>(run, context, 3);
      const float* w = DataOf<const float>(run, context, 4);
      const float* b = dx > 5 ? DataOf<const float>(run, context, 5) : nullptr;
      const double* sums = DataOf<const double>(run, context, 2);
      ForPieces(pieces, context.threads, [&](const Piece& piece, int64_t) {
        PieceLines lines, forward;
        ForChannels(pieces, piece, [&](int64_t block, Lanes lanes, int64_t c) {
          const program::Normalisation at = At(op, pieces, piece, sums, c);
          const double* dsum = dsums + pieces.SumOf(piece.group, c);
          const double mean_dy = dsum[0] / count, mean_dy_x = dsum[pieces.channels] / count;
          lines[block].Set(lanes, at.mean, -at.scale * mean_dy_x, -mean_dy);
          Fill(lines[block].scale, lanes, static_cast<float>(at.scale * w[c]));
        });
        if (b != nullptr) Set(forward, op, pieces, piece, sums, w, b);
        MapGradientPiece(pieces, piece, lines.data(), b != nullptr ? forward.data() : nullptr,
                         DataOf<const T>(run, context, 0), DataOf<const T>(run, context, 1), DataOf<T>(run, context, dx));
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace colonnade::cpu
