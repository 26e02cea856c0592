#include "cpu/ops/lrn.h"

#include <algorithm>
#include <cmath>

#include "cpu/alignment.h"
#include "cpu/ops/block_loops.h"
#include "cpu/ops/clones.h"
#include "cpu/ops/element.h"
#include "cpu/ops/staging.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/lrn.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

using program::CeilDiv;
using program::RoundUp;

namespace {

struct LrnFormula {
  int64_t half, groups;  // windows reach `half` channels to either side
  float alpha_over_size, beta, k;
};

// The window is cut to its group of the `channels`, so that scratch does not grow with it.
template <class Op>
LrnFormula FormulaOf(const Op& op, int64_t channels) {
  return {std::min(op.size / 2, channels / op.groups - 1), op.groups,
          static_cast<float>(op.alpha / static_cast<double>(op.size)), static_cast<float>(op.beta),
          static_cast<float>(op.k)};
}

constexpr int64_t kLongestRun = 16;           // pixels of a line, where it has several
constexpr int64_t kBlockedTileFloats = 1024;  // about: a tile and its scratch stay in the L1 cache

// Images are worked on in tiles of some lines, each [C][width]. Where channels are neighbours in memory, a line is one pixel
// and a tile has several lines. Elsewhere a tile is one line of several pixels. So all loops run along memory. A window's
// sum adds shifted copies of a line's products. The products of all lines are made before the first sum, so that nothing is
// read right after it was written where there are several lines.
struct Tiles {
  int64_t channels, pixels, width, lines, tiles_per_image;
  bool blocked;

  explicit Tiles(const View& view)
      : channels(view.shape[1]),
        pixels(view.shape[2] * view.shape[3]),
        width(view.kind == View::Kind::kBlocked ? 1 : std::min(kLongestRun, pixels)),
        lines(view.kind == View::Kind::kBlocked ? std::clamp<int64_t>(kBlockedTileFloats / channels, 1, pixels) : 1),
        tiles_per_image(CeilDiv(pixels, width * lines)),
        blocked(view.kind == View::Kind::kBlocked) {}

  int64_t line() const { return channels * width; }  // elements
  int64_t elements() const { return line() * lines; }
  // A line with `half` channels of zeros before each group and after the last.
  int64_t padded_line(const LrnFormula& lrn) const { return (channels + lrn.half * (lrn.groups + 1)) * width; }

  int64_t FirstPixel(int64_t tile) const { return tile % tiles_per_image * width * lines; }  // of its image
  int64_t PixelCount(int64_t tile) const { return std::min(width * lines, pixels - FirstPixel(tile)); }
  int64_t ImageOffset(int64_t tile) const { return tile / tiles_per_image * channels * pixels; }
};

// Calls body(offset in the images, offset in the tile, count) for each run of neighbours that a tile has in memory.
template <class Body>
COLONNADE_INLINE void ForRuns(const Tiles& t, int64_t tile, const Body& body) {
  const int64_t image = t.ImageOffset(tile), first = t.FirstPixel(tile), count = t.PixelCount(tile);
  if (t.blocked) {
    for (int64_t c = 0; c < t.channels; c += kChannelBlock) {
      for (int64_t p = 0; p < count; ++p) {
        body(image + c * t.pixels + (first + p) * kChannelBlock, p * t.channels + c, kChannelBlock);
      }
    }
  } else {
    for (int64_t c = 0; c < t.channels; ++c) body(image + c * t.pixels + first, c * t.width, count);
  }
}

// sums[i] = Σ from[i + j·stride] over j from 0 to `shifts`, in this order.
COLONNADE_INLINE void SumShifted(const float* __restrict from, int64_t shifts, int64_t stride, int64_t count,
                                 float* __restrict sums) {
  if (shifts == 4) {  // the paper's windows in one go
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = from[i] + from[i + stride] + from[i + 2 * stride] + from[i + 3 * stride] + from[i + 4 * stride];
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) sums[i] = from[i];
  for (int64_t j = 1; j <= shifts; ++j) {
    for (int64_t i = 0; i < count; ++i) sums[i] += from[i + j * stride];
  }
}

// sums[c] = Σ a[j]·b[j] over the window of c, in channel order. `padded` is scratch whose padding is 0.
COLONNADE_INLINE void SumWindows(const LrnFormula& lrn, const Tiles& t, const float* a, const float* b, float* padded,
                                 float* sums) {
  const int64_t group = t.line() / lrn.groups, reach = lrn.half * t.width;
  for (int64_t at = 0; at < t.elements(); at += group) {
    float* products = padded + (at / t.line() * t.padded_line(lrn) + at % t.line() / group * (group + reach) + reach);
    for (int64_t i = 0; i < group; ++i) products[i] = a[at + i] * b[at + i];
  }
  for (int64_t at = 0; at < t.elements(); at += group) {
    const float* window = padded + (at / t.line() * t.padded_line(lrn) + at % t.line() / group * (group + reach));
    SumShifted(window, 2 * lrn.half, t.width, group, sums + at);
  }
}

// s^(−beta).
struct ThreeQuarters {
  COLONNADE_INLINE float operator()(float s) const { return program::ToMinusThreeQuarters(s); }
};
struct AnyPower {
  float beta;
  float operator()(float s) const { return std::pow(s, -beta); }
};

// Calls body(s ↦ s^(−beta)).
template <class Body>
COLONNADE_INLINE void WithPower(float beta, const Body& body) {
  if (beta == 0.75f) {
    body(ThreeQuarters());
  } else {
    body(AnyPower{beta});
  }
}

// Scratch of one thread: the padded tile, then `kArrays` tiles.
constexpr int kArrays = 4;
int64_t PaddedFloats(const LrnFormula& lrn, const Tiles& t) {
  return RoundUp(t.padded_line(lrn) * t.lines, kAlignmentFloats);
}
int64_t ScratchFloats(const LrnFormula& lrn, const Tiles& t) {
  return RoundUp(PaddedFloats(lrn, t) + kArrays * t.elements(), kAlignmentFloats);
}

// in = x of the tile, in float.
template <class T>
COLONNADE_INLINE void Read(const Tiles& t, int64_t tile, const T* x, float* in) {
  ForRuns(t, tile, [&](int64_t from, int64_t at, int64_t size) COLONNADE_INLINE_LAMBDA {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) in[at + i] = x[from + i];
  });
}

template <class T>
struct ForwardOperands {
  const T* x;
  T* y;
};

template <class T>
COLONNADE_VECTOR_CLONES void ForwardTiles(const LrnFormula& lrn, const Tiles& t, const ForwardOperands<T>& o, int64_t begin,
                                          int64_t end, float* scratch) {
  const int64_t count = t.elements();
  float *padded = scratch, *in = padded + PaddedFloats(lrn, t), *sums = in + count;
  std::fill(padded, sums + count, 0.0f);
  WithPower(lrn.beta, [&](auto power) COLONNADE_INLINE_LAMBDA {
    for (int64_t tile = begin; tile < end; ++tile) {
      Read(t, tile, o.x, in);
      SumWindows(lrn, t, in, in, padded, sums);
      ForRuns(t, tile, [&](int64_t to, int64_t at, int64_t size) COLONNADE_INLINE_LAMBDA {
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) Put(in[at + i] * power(lrn.k + lrn.alpha_over_size * sums[at + i]), o.y[to + i]);
      });
    }
  });
}

template <class T>
struct BackwardOperands {
  const T *x, *dy;
  T* dx;
};

//   dx_c = dy_c · s_c^(−beta) − 2·alpha·beta/size · x_c · Σ_{c in j's window} dy_j · x_j · s_j^(−beta−1)
template <class T>
COLONNADE_VECTOR_CLONES void BackwardTiles(const LrnFormula& lrn, const Tiles& t, const BackwardOperands<T>& o,
                                           int64_t begin, int64_t end, float* scratch) {
  const int64_t count = t.elements();
  float *padded = scratch, *in = padded + PaddedFloats(lrn, t), *out = in + count, *parts = out + count,
        *sums = parts + count;
  const float factor = 2.0f * lrn.alpha_over_size * lrn.beta;
  std::fill(padded, sums + count, 0.0f);
  WithPower(lrn.beta, [&](auto power) COLONNADE_INLINE_LAMBDA {
    for (int64_t tile = begin; tile < end; ++tile) {
      Read(t, tile, o.x, in);
      SumWindows(lrn, t, in, in, padded, sums);
      ForRuns(t, tile, [&](int64_t from, int64_t at, int64_t size) COLONNADE_INLINE_LAMBDA {
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) {
          const float s = lrn.k + lrn.alpha_over_size * sums[at + i], dy = o.dy[from + i], scaled = dy * power(s);
          out[at + i] = scaled;
          parts[at + i] = scaled / s;
        }
      });
      SumWindows(lrn, t, in, parts, padded, sums);
      ForRuns(t, tile, [&](int64_t to, int64_t at, int64_t size) COLONNADE_INLINE_LAMBDA {
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) Put(out[at + i] - factor * in[at + i] * sums[at + i], o.dx[to + i]);
      });
    }
  });
}

// Calls body(begin, end, scratch) on each thread with its range of tiles.
template <class Body>
void ForTiles(const LrnFormula& lrn, const Tiles& tiles, int64_t images, int threads, char* workspace, const Body& body) {
  ParallelForWithScratch(threads, images * tiles.tiles_per_image, ScratchFloats(lrn, tiles), workspace, body);
}

int64_t WorkspaceBytes(const LrnFormula& lrn, const TaskContext& context) {
  return context.threads * ScratchFloats(lrn, Tiles(context.view(0))) * static_cast<int64_t>(sizeof(float));
}

template <class T>
std::unique_ptr<Kernel> Forward(T, const LrnFormula& lrn, const TaskContext& context) {
  return MakeKernel(
      [lrn, tiles = Tiles(context.view(0)), context](const RunArguments& run) {
        const ForwardOperands<T> operands = {DataOf<const T>(run, context, 0), DataOf<T>(run, context, 1)};
        ForTiles(
            lrn, tiles, context.view(0).shape[0], context.threads, run.workspace,
            [&](int64_t begin, int64_t end, float* scratch) { ForwardTiles(lrn, tiles, operands, begin, end, scratch); });
        return absl::OkStatus();
      },
      WorkspaceBytes(lrn, context));
}

template <class T>
std::unique_ptr<Kernel> Backward(T, const LrnFormula& lrn, const TaskContext& context) {
  return MakeKernel(
      [lrn, tiles = Tiles(context.view(0)), context](const RunArguments& run) {
        const BackwardOperands<T> operands = {DataOf<const T>(run, context, 0), DataOf<const T>(run, context, 1),
                                              DataOf<T>(run, context, 2)};
        ForTiles(
            lrn, tiles, context.view(0).shape[0], context.threads, run.workspace,
            [&](int64_t begin, int64_t end, float* scratch) { BackwardTiles(lrn, tiles, operands, begin, end, scratch); });
        return absl::OkStatus();
      },
      WorkspaceBytes(lrn, context));
}

constexpr int64_t kChunkFloats = 2048;  // about: all channels of some pixels, so that scratch stays in the L1 cache

// The normalisation that BlockLoops have, and how its images are cut: into some pixels of all channels.
struct BlockedLrn {
  const BlockLoops& loops;
  FiveChannelLrn lrn;
  int64_t images, groups, blocks, image_pixels, chunk_pixels;  // blocks of a group
  program::DType dtype;

  BlockedLrn(const LrnFormula& of, const View& view)
      : loops(*FindBlockLoops()),
        lrn{of.alpha_over_size, of.k},
        images(view.shape[0]),
        groups(of.groups),
        blocks(view.shape[1] / of.groups / kChannelBlock),
        image_pixels(view.shape[2] * view.shape[3]),
        chunk_pixels(std::clamp<int64_t>(kChunkFloats / view.shape[1], 1, image_pixels)),
        dtype(view.dtype) {}

  BlockedPixels Pixels(int64_t count) const {
    return {dtype == program::DType::kBF16, blocks, count, image_pixels * kChannelBlock};
  }
  int64_t scratch_floats() const { return RoundUp(LrnScratchFloats(Pixels(chunk_pixels)), kAlignmentFloats); }
  // Calls body(pixels, byte, scratch) for each chunk's pixels of each group: the byte at which they begin, and their
  // thread's `floats` floats of the workspace.
  template <class Body>
  void ForChunks(int threads, int64_t floats, char* workspace, const Body& body) const {
    const int64_t per_image = CeilDiv(image_pixels, chunk_pixels), group_pixels = blocks * image_pixels;
    ParallelForWithScratch(threads, images * per_image, floats, workspace, [&](int64_t begin, int64_t end, float* scratch) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk % per_image * chunk_pixels;
        const BlockedPixels pixels = Pixels(std::min(chunk_pixels, image_pixels - first));
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t pixel = (chunk / per_image * groups + group) * group_pixels + first;
          body(pixels, pixel * kChannelBlock * program::SizeInBytes(dtype), scratch);
        }
      }
    });
  }
};

bool HasBlockLoops(const LrnFormula& lrn, const View& view) {
  return FindBlockLoops() != nullptr && view.kind == View::Kind::kBlocked && lrn.half == 2 && lrn.beta == 0.75F &&
         view.shape[1] / lrn.groups % kChannelBlock == 0;
}

std::unique_ptr<Kernel> ForwardInBlocks(const BlockedLrn& of, const TaskContext& context) {
  return MakeKernel([of, context](const RunArguments& run) {
    const char* x = BytesOf(run, context, 0);
    char* y = BytesOf(run, context, 1);
    of.ForChunks(context.threads, 0, run.workspace, [&](const BlockedPixels& pixels, int64_t byte, float*) {
      of.loops.lrn_forward(pixels, of.lrn, x + byte, y + byte);
    });
    return absl::OkStatus();
  });
}

std::unique_ptr<Kernel> BackwardInBlocks(const BlockedLrn& of, const TaskContext& context) {
  const auto run_kernel = [of, context](const RunArguments& run) {
    const char *x = BytesOf(run, context, 0), *dy = BytesOf(run, context, 1);
    char* dx = BytesOf(run, context, 2);
    of.ForChunks(context.threads, of.scratch_floats(), run.workspace,
                 [&](const BlockedPixels& pixels, int64_t byte, float* scratch) {
                   of.loops.lrn_backward(pixels, of.lrn, x + byte, dy + byte, scratch, dx + byte);
                 });
    return absl::OkStatus();
  };
  return MakeKernel(run_kernel, context.threads * of.scratch_floats() * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

PreparedKernel Prepare(const program::LrnForward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const View& view = context.view(0);
    const LrnFormula lrn = FormulaOf(op, view.shape[1]);
    if (HasBlockLoops(lrn, view)) return ForwardInBlocks({lrn, view}, context);
    return WithElement(view.dtype, [&](auto zero) { return Forward(zero, lrn, context); });
  });
}

PreparedKernel Prepare(const program::LrnBackward& op, const TaskContext& outer) {
  return PrepareStaged(outer, /*weights=*/-1, [&op](const TaskContext& context) -> PreparedKernel {
    const View& view = context.view(0);
    const LrnFormula lrn = FormulaOf(op, view.shape[1]);
    if (HasBlockLoops(lrn, view)) return BackwardInBlocks({lrn, view}, context);
    return WithElement(view.dtype, [&](auto zero) { return Backward(zero, lrn, context); });
  });
}

}  // namespace colonnade::cpu
