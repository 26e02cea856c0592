#include "cpu/lrn.h"

#include <algorithm>
#include <cmath>

#include "cpu/arena.h"
#include "cpu/parallel.h"
#include "cpu/staging.h"

namespace colonnade::cpu {

using program::Shape;

namespace {

// Pixels are worked on in tiles of [C][kTile]: a tile's channels are rows, so that loops over pixels are vectors.
constexpr int64_t kTile = 16;

struct Normalisation {
  int64_t size, groups;
  float alpha_over_size, beta, k;

  // s^(−beta); the exponent 3/4 of the paper without a logarithm.
  float Power(float s) const { return beta == 0.75f ? 1.0f / std::sqrt(s * std::sqrt(s)) : std::pow(s, -beta); }
};

template <class Op>
Normalisation NormalisationOf(const Op& op) {
  return {op.size, op.groups, static_cast<float>(op.alpha / static_cast<double>(op.size)), static_cast<float>(op.beta),
          static_cast<float>(op.k)};
}

// A dense image tensor, whose tiles are gathered to [C][kTile] and scattered back.
struct Tiles {
  int64_t channels, pixels, tiles_per_image;
  bool blocked;

  explicit Tiles(const View& view)
      : channels(view.shape[1]), pixels(view.shape[2] * view.shape[3]), tiles_per_image((pixels + kTile - 1) / kTile),
        blocked(view.kind == View::Kind::kBlocked) {}

  int64_t Begin(int64_t tile) const { return tile % tiles_per_image * kTile; }
  int64_t Count(int64_t tile) const { return std::min(kTile, pixels - Begin(tile)); }
  // Offset of (image, channel, pixel) and the distance from one pixel to the next.
  int64_t Offset(int64_t tile, int64_t c) const {
    const int64_t image = tile / tiles_per_image * channels * pixels;
    if (!blocked) return image + c * pixels + Begin(tile);
    return image + (c / kChannelBlock * pixels + Begin(tile)) * kChannelBlock + c % kChannelBlock;
  }
  int64_t PixelStride() const { return blocked ? kChannelBlock : 1; }

  void Gather(const float* from, int64_t tile, float* rows) const {
    const int64_t count = Count(tile), stride = PixelStride();
    for (int64_t c = 0; c < channels; ++c) {
      const float* source = from + Offset(tile, c);
      for (int64_t i = 0; i < count; ++i) rows[c * kTile + i] = source[i * stride];
      for (int64_t i = count; i < kTile; ++i) rows[c * kTile + i] = 0.0f;
    }
  }
  void Scatter(const float* rows, int64_t tile, float* to) const {
    const int64_t count = Count(tile), stride = PixelStride();
    for (int64_t c = 0; c < channels; ++c) {
      float* target = to + Offset(tile, c);
      for (int64_t i = 0; i < count; ++i) target[i * stride] = rows[c * kTile + i];
    }
  }
};

// sums[c] = Σ terms[j] over the window of c, in channel order, for each pixel of a tile.
void SumWindows(const Normalisation& lrn, int64_t channels, const float* terms, float* sums) {
  const int64_t group = channels / lrn.groups, half = lrn.size / 2;
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t first = c / group * group;
    const int64_t begin = std::max(first, c - half), end = std::min(first + group, c + half + 1);
    float row[kTile] = {};
    for (int64_t j = begin; j < end; ++j) {
      for (int64_t i = 0; i < kTile; ++i) row[i] += terms[j * kTile + i];
    }
    std::copy(row, row + kTile, sums + c * kTile);
  }
}

// Workspace of one thread: `arrays` tiles, apart from other threads' cache lines.
int64_t ThreadFloats(int64_t channels, int arrays) { return RoundUp(channels * kTile * arrays, kAlignment); }

// Calls body(tile, scratch) for all tiles, spread over threads, each with `arrays` tiles of scratch of its own.
template <class Body>
void ForTiles(const Tiles& tiles, int64_t images, int threads, int arrays, char* workspace, const Body& body) {
  const int64_t count = images * tiles.tiles_per_image;
  ParallelFor(threads, threads, [&](int64_t first_thread, int64_t end_thread) {
    for (int64_t t = first_thread; t < end_thread; ++t) {
      float* scratch = reinterpret_cast<float*>(workspace) + t * ThreadFloats(tiles.channels, arrays);
      for (int64_t tile = count * t / threads; tile < count * (t + 1) / threads; ++tile) body(tile, scratch);
    }
  });
}

template <class T>
T* DataOf(const RunArguments& run, const TaskContext& context, int use) {
  return run.as<T>(use) + context.view(use).offset;
}

}  // namespace

PreparedKernel Prepare(const program::LrnForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    constexpr int kArrays = 3;
    const Tiles tiles(context.view(0));
    const int64_t bytes = context.threads * ThreadFloats(tiles.channels, kArrays) * static_cast<int64_t>(sizeof(float));
    return KernelOf(
        [lrn = NormalisationOf(op), tiles, context](const RunArguments& run) {
          const float* x = DataOf<const float>(run, context, 0);
          float* y = DataOf<float>(run, context, 1);
          float* s = context.operands.size() == 3 ? DataOf<float>(run, context, 2) : nullptr;
          const int64_t elements = tiles.channels * kTile;
          ForTiles(tiles, context.view(0).shape[0], context.threads, kArrays, run.workspace, [&](int64_t tile, float* scratch) {
            float *in = scratch, *squares = in + elements, *scale = squares + elements;
            tiles.Gather(x, tile, in);
            for (int64_t i = 0; i < elements; ++i) squares[i] = in[i] * in[i];
            SumWindows(lrn, tiles.channels, squares, scale);
            for (int64_t i = 0; i < elements; ++i) scale[i] = lrn.k + lrn.alpha_over_size * scale[i];
            if (s != nullptr) tiles.Scatter(scale, tile, s);
            for (int64_t i = 0; i < elements; ++i) in[i] *= lrn.Power(scale[i]);
            tiles.Scatter(in, tile, y);
          });
          return absl::OkStatus();
        },
        bytes);
  });
}

//   dx_c = dy_c · s_c^(−beta) − 2·alpha·beta/size · x_c · Σ_{c in j's window} dy_j · x_j · s_j^(−beta−1)
PreparedKernel Prepare(const program::LrnBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    constexpr int kArrays = 5;
    const Tiles tiles(context.view(0));
    const int64_t bytes = context.threads * ThreadFloats(tiles.channels, kArrays) * static_cast<int64_t>(sizeof(float));
    return KernelOf(
        [lrn = NormalisationOf(op), tiles, context](const RunArguments& run) {
          const float* x = DataOf<const float>(run, context, 0);
          const float* s = DataOf<const float>(run, context, 1);
          const float* dy = DataOf<const float>(run, context, 2);
          float* dx = DataOf<float>(run, context, 3);
          const int64_t elements = tiles.channels * kTile;
          const float factor = 2.0f * lrn.alpha_over_size * lrn.beta;
          ForTiles(tiles, context.view(0).shape[0], context.threads, kArrays, run.workspace, [&](int64_t tile, float* scratch) {
            float *in = scratch, *scale = in + elements, *out = scale + elements, *terms = out + elements,
                  *sums = terms + elements;
            tiles.Gather(x, tile, in);
            tiles.Gather(s, tile, scale);
            tiles.Gather(dy, tile, out);
            for (int64_t i = tiles.Count(tile); i < kTile; ++i) {  // pixels beyond the image: any scale that is not 0
              for (int64_t c = 0; c < tiles.channels; ++c) scale[c * kTile + i] = 1.0f;
            }
            for (int64_t i = 0; i < elements; ++i) {
              out[i] *= lrn.Power(scale[i]);
              terms[i] = out[i] * in[i] / scale[i];
            }
            SumWindows(lrn, tiles.channels, terms, sums);
            for (int64_t i = 0; i < elements; ++i) out[i] -= factor * in[i] * sums[i];
            tiles.Scatter(out, tile, dx);
          });
          return absl::OkStatus();
        },
        bytes);
  });
}

}  // namespace colonnade::cpu
