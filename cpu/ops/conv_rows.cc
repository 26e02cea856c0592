#include "cpu/ops/conv_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpu/alignment.h"
#include "cpu/ops/row_loops.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"
#include "program/product_uses.h"

namespace colonnade::cpu {

using program::CeilDiv;
using program::RoundUp;
using program::Shape;
using program::Window;

namespace {

constexpr int64_t kMostChannels = 32;  // of a group: with more, oneDNN's kernels are as fast
constexpr int64_t kLeastColumns = 8;   // of x and y: half of a vector
constexpr int64_t kNearBytes = 32768;  // of gradients that are read again and again: most of the L1 cache

// Images [N, groups·inputs, rows, columns], each group's planes of which are copied to where zeros surround them.
struct PaddedImages {
  int64_t rows, columns;       // of the image
  int64_t top, left;           // zeros before
  RowConvolution convolution;  // that reads them

  PaddedImages(const Shape& image, const Shape& result, const Window& window, int64_t top, int64_t left, int64_t groups)
      : rows(image[2]), columns(image[3]), top(top), left(left) {
    const int64_t pitch = RoundUp(result[3], kMostLanes) + window.size_w - 1;
    convolution = {.inputs = image[1] / groups,
                   .outputs = result[1] / groups,
                   .rows = result[2],
                   .columns = result[3],
                   .window_rows = window.size_h,
                   .window_columns = window.size_w,
                   .pitch = pitch,
                   .plane = (result[2] + window.size_h - 1) * pitch};
  }

  // Floats of one group of one image, and of what may be read beyond it.
  int64_t image_floats() const { return convolution.inputs * convolution.plane; }
  int64_t floats() const { return RoundUp(image_floats() + kMostLanes, kMostLanes); }
  // `to`: zeros, but for earlier copies.
  void Copy(const float* image, float* to) const {
    for (int64_t c = 0; c < convolution.inputs; ++c) {
      for (int64_t h = 0; h < rows; ++h) {
        float* row = to + c * convolution.plane + (h + top) * convolution.pitch + left;
        std::memcpy(row, image + (c * rows + h) * columns, columns * sizeof(float));
      }
    }
  }
};

// Weights in the order of RowLoops::convolve; at(output, input, r, s) of group g.
template <class At>
void Pack(const RowConvolution& of, int64_t tile, float* to, const At& at) {
  for (int64_t first = 0; first < of.outputs; first += tile) {
    const int64_t end = std::min(first + tile, of.outputs);
    for (int64_t c = 0; c < of.inputs; ++c) {
      for (int64_t r = 0; r < of.window_rows; ++r) {
        for (int64_t s = 0; s < of.window_columns; ++s) {
          for (int64_t k = first; k < end; ++k) *to++ = at(k, c, r, s);
        }
      }
    }
  }
}

// Which operands a convolution has; no bias if that is negative.
struct Uses {
  int x, y, bias = -1;
};

// y = the convolution of x, by all threads. The workspace has the weights of all groups, then an image of each thread.
struct Convolution {
  PaddedImages padded;
  int64_t groups, images, threads;
  bool relu;
  const RowLoops* loops;
  int64_t tile, weights;  // of one group
  int64_t packed_bytes, image_bytes;

  Convolution(const PaddedImages& padded, int64_t groups, int64_t images, int threads, bool relu)
      : padded(padded), groups(groups), images(images), threads(threads), relu(relu), loops(FindRowLoops()) {
    const RowConvolution& of = padded.convolution;
    tile = EvenPart(of.outputs, loops->outputs);
    weights = of.outputs * of.inputs * of.window_rows * of.window_columns;
    packed_bytes = RoundUp(groups * weights * static_cast<int64_t>(sizeof(float)), kAlignmentBytes);
    image_bytes = RoundUp(padded.floats() * static_cast<int64_t>(sizeof(float)), kAlignmentBytes);
  }

  int64_t bytes() const { return packed_bytes + threads * image_bytes; }

  // Images [begin, end), each copied to `image`.
  void Run(int64_t begin, int64_t end, const float* packed, const float* x, const float* bias, float* image,
           float* y) const {
    const RowConvolution& of = padded.convolution;
    const int64_t x_group = of.inputs * padded.rows * padded.columns, y_group = of.outputs * of.rows * of.columns;
    std::fill_n(image, padded.floats(), 0.0f);
    for (int64_t i = begin * groups; i < end * groups; ++i) {
      const int64_t g = i % groups;
      padded.Copy(x + i * x_group, image);
      loops->convolve(of, tile, image, packed + g * weights, bias == nullptr ? nullptr : bias + g * of.outputs, relu,
                      y + i * y_group);
    }
  }
};

// `pack(run, group, tile, to)` packs the weights of a group.
template <class PackWeights>
PreparedKernel KernelOfConvolution(const Convolution& convolution, const TaskContext& context, Uses uses,
                                   const PackWeights& pack) {
  return MakeKernel(
      [=](const RunArguments& run) {
        float* packed = reinterpret_cast<float*>(run.workspace);
        for (int64_t g = 0; g < convolution.groups; ++g) pack(run, g, convolution.tile, packed + g * convolution.weights);
        const float* x = DataOf<const float>(run, context, uses.x);
        const float* bias = uses.bias < 0 ? nullptr : DataOf<const float>(run, context, uses.bias);
        float* y = DataOf<float>(run, context, uses.y);
        const int64_t floats = convolution.image_bytes / static_cast<int64_t>(sizeof(float));
        ParallelForWithScratch(
            context.threads, convolution.images, floats, run.workspace + convolution.packed_bytes,
            [&](int64_t begin, int64_t end, float* image) { convolution.Run(begin, end, packed, x, bias, image, y); });
        return absl::OkStatus();
      },
      convolution.bytes());
}

// The memory of one thread of a weights' gradient, in floats.
struct GradientScratch {
  int64_t x, dy, sums, bias;  // where each begins
  int64_t floats;
};

// dw = Σ over images of x·dy; each thread sums its images by lane, and then lanes and threads are added.
struct WeightGradient {
  PaddedImages padded;
  int64_t groups, images, threads;
  bool bias;
  const RowLoops* loops;
  int64_t tile, weights;       // of one group
  int64_t dy_pitch, dy_plane;  // of dy, or of its copy with rows that end with zeros
  int64_t near_images;         // at a time
  GradientScratch scratch;

  WeightGradient(const PaddedImages& padded, int64_t groups, int64_t images, int threads, bool bias)
      : padded(padded), groups(groups), images(images), threads(threads), bias(bias), loops(FindRowLoops()) {
    const RowConvolution& of = padded.convolution;
    tile = EvenPart(of.outputs, loops->accumulators / of.window_columns);
    weights = of.outputs * of.inputs * of.window_rows * of.window_columns;
    dy_pitch = RoundUp(of.columns, kMostLanes);
    dy_plane = of.rows * dy_pitch;
    const int64_t tile_bytes = tile * dy_plane * static_cast<int64_t>(sizeof(float));
    near_images = std::clamp<int64_t>(kNearBytes / tile_bytes, 1, CeilDiv(images, threads));
    scratch.x = 0;
    scratch.dy = near_images * padded.image_floats() + kMostLanes;
    scratch.sums = scratch.dy + (copies_dy() ? near_images * of.outputs * dy_plane : 0);
    scratch.bias = scratch.sums + groups * weights * loops->lanes;
    scratch.floats = RoundUp(scratch.bias + groups * of.outputs * kMostLanes, kMostLanes);
  }

  bool copies_dy() const { return dy_pitch != padded.convolution.columns; }
  int64_t bytes() const { return threads * scratch.floats * static_cast<int64_t>(sizeof(float)); }

  // The images of group g from `first` on.
  void AddImages(const float* x, const float* dy, int64_t first, int64_t count, int64_t g, float* own) const {
    const RowConvolution& of = padded.convolution;
    const int64_t x_group = of.inputs * padded.rows * padded.columns, dy_group = of.outputs * of.rows * of.columns;
    RowGradient over = {count, padded.image_floats(), groups * dy_group, of.rows * of.columns, of.columns};
    const float* gradients = dy + (first * groups + g) * dy_group;
    for (int64_t i = 0; i < count; ++i) {
      padded.Copy(x + ((first + i) * groups + g) * x_group, own + scratch.x + i * over.x_image);
    }
    if (copies_dy()) {
      for (int64_t i = 0; i < count; ++i)
        CopyRows(gradients + i * over.dy_image, own + scratch.dy + i * of.outputs * dy_plane);
      over = {count, over.x_image, of.outputs * dy_plane, dy_plane, dy_pitch};
      gradients = own + scratch.dy;
    }
    loops->add_gradient(of, over, tile, own + scratch.x, gradients, own + scratch.sums + g * weights * loops->lanes);
    if (bias) AddBias(over, gradients, own + scratch.bias + g * of.outputs * kMostLanes);
  }

  void CopyRows(const float* dy, float* to) const {
    const RowConvolution& of = padded.convolution;
    for (int64_t row = 0; row < of.outputs * of.rows; ++row) {
      std::memcpy(to + row * dy_pitch, dy + row * of.columns, of.columns * sizeof(float));
    }
  }

  void AddBias(const RowGradient& over, const float* dy, float* sums) const {
    for (int64_t i = 0; i < over.images; ++i) {
      for (int64_t k = 0; k < padded.convolution.outputs; ++k) {
        loops->add_row(dy + i * over.dy_image + k * over.dy_plane, dy_plane, sums + k * kMostLanes);
      }
    }
  }

  // Σ over lanes and threads of sum `index` of the `lanes` floats each that begin at `begin`.
  float Total(const float* all, int64_t begin, int64_t index, int64_t lanes) const {
    double total = 0;
    for (int64_t t = 0; t < threads; ++t) {
      const float* sums = all + t * scratch.floats + begin + index * lanes;
      total = std::accumulate(sums, sums + lanes, total);
    }
    return static_cast<float>(total);
  }

  // dw [groups·outputs, inputs, R, S] of the outputs [begin, end).
  void Write(const float* all, int64_t begin, int64_t end, float* dw) const {
    const RowConvolution& of = padded.convolution;
    const int64_t taps = of.inputs * of.window_rows * of.window_columns;
    for (int64_t output = begin; output < end; ++output) {
      const int64_t k = output % of.outputs, first = k / tile * tile, in_tile = std::min(tile, of.outputs - first);
      const int64_t of_tile = output / of.outputs * weights + first * taps;
      for (int64_t row = 0; row < of.inputs * of.window_rows; ++row) {
        for (int64_t s = 0; s < of.window_columns; ++s) {
          const int64_t index = of_tile + (row * in_tile + k - first) * of.window_columns + s;
          *(dw + output * taps + row * of.window_columns + s) = Total(all, scratch.sums, index, loops->lanes);
        }
      }
    }
  }
};

// oneDNN computes with whole blocks of channels, and reads up to three that no block is made of in a kernel of its own.
bool FillsBlocks(int64_t inputs, int64_t outputs) {
  return outputs % kChannelBlock == 0 && (inputs % kChannelBlock == 0 || inputs <= 3);
}

}  // namespace

bool ConvolvesByRows(const Window& window, int64_t groups, const Shape& x, const Shape& y) {
  const int64_t inputs = x[1] / groups, outputs = y[1] / groups;
  const bool depthwise = groups > 1 && inputs == 1 && outputs == 1;  // for which oneDNN has kernels of its own
  return FindRowLoops() != nullptr && std::min({x[0], inputs, outputs}) > 0 && !depthwise && window.stride_h == 1 &&
         window.stride_w == 1 && (window.size_w == 3 || window.size_w == 5) && std::max(inputs, outputs) <= kMostChannels &&
         !FillsBlocks(inputs, outputs) && std::min(x[3], y[3]) >= kLeastColumns &&
         std::max(window.pad_top, window.pad_bottom) < window.size_h &&
         std::max(window.pad_left, window.pad_right) < window.size_w;
}

PreparedKernel PrepareByRows(const program::ConvForward& op, const TaskContext& context) {
  const program::ProductUses uses = program::ForwardUses(op.bias);
  const PaddedImages padded(context.view(uses.x).shape, context.view(uses.y).shape, op.window, op.window.pad_top,
                            op.window.pad_left, op.groups);
  const auto pack = [of = padded.convolution, context, w_use = uses.w](const RunArguments& run, int64_t g, int64_t tile,
                                                                       float* to) {
    const int64_t window = of.window_rows * of.window_columns;
    const float* w = DataOf<const float>(run, context, w_use) + g * of.outputs * of.inputs * window;
    Pack(of, tile, to, [&](int64_t k, int64_t c, int64_t r, int64_t s) {
      return w[(k * of.inputs + c) * window + r * of.window_columns + s];
    });
  };
  const Convolution convolution(padded, op.groups, context.view(uses.x).shape[0], context.threads, op.relu);
  return KernelOfConvolution(convolution, context, {.x = uses.x, .y = uses.y, .bias = uses.bias}, pack);
}

// dx is the convolution of dy by the weights turned about, with the padding that completes a window.
PreparedKernel PrepareByRows(const program::ConvBackwardData& op, const TaskContext& context) {
  constexpr program::ProductUses kUses = program::BackwardDataUses();
  const Window& window = op.window;
  const PaddedImages padded(context.view(kUses.y).shape, context.view(kUses.x).shape, window,
                            window.size_h - 1 - window.pad_top, window.size_w - 1 - window.pad_left, op.groups);
  const auto pack = [of = padded.convolution, context](const RunArguments& run, int64_t g, int64_t tile, float* to) {
    const int64_t taps = of.window_rows * of.window_columns;
    const float* w = DataOf<const float>(run, context, kUses.w) + g * of.outputs * of.inputs * taps;
    Pack(of, tile, to, [&](int64_t c, int64_t k, int64_t r, int64_t s) {
      return w[(k * of.outputs + c) * taps + taps - 1 - (r * of.window_columns + s)];
    });
  };
  const Convolution convolution(padded, op.groups, context.view(kUses.y).shape[0], context.threads, /*relu=*/false);
  return KernelOfConvolution(convolution, context, {.x = kUses.y, .y = kUses.x}, pack);
}

PreparedKernel PrepareByRows(const program::ConvBackwardWeights& op, const TaskContext& context) {
  const program::ProductUses uses = program::BackwardWeightsUses(op.bias);
  const PaddedImages padded(context.view(uses.x).shape, context.view(uses.y).shape, op.window, op.window.pad_top,
                            op.window.pad_left, op.groups);
  const WeightGradient gradient(padded, op.groups, context.view(uses.x).shape[0], context.threads, op.bias);
  return MakeKernel(
      [gradient, context, uses](const RunArguments& run) {
        const float *x = DataOf<const float>(run, context, uses.x), *dy = DataOf<const float>(run, context, uses.y);
        float* all = reinterpret_cast<float*>(run.workspace);
        ParallelForWithScratch(context.threads, gradient.images, gradient.scratch.floats, run.workspace,
                               [&](int64_t begin, int64_t end, float* own) {
                                 std::fill_n(own, gradient.scratch.floats, 0.0f);
                                 for (int64_t n = begin; n < end; n += gradient.near_images) {
                                   const int64_t count = std::min(gradient.near_images, end - n);
                                   for (int64_t g = 0; g < gradient.groups; ++g) gradient.AddImages(x, dy, n, count, g, own);
                                 }
                               });
        const int64_t outputs = context.view(uses.y).shape[1];
        float* dw = DataOf<float>(run, context, uses.w);
        ParallelFor(context.threads, outputs, [&](int64_t begin, int64_t end) { gradient.Write(all, begin, end, dw); });
        for (int64_t k = 0; gradient.bias && k < outputs; ++k) {
          DataOf<float>(run, context, uses.bias)[k] = gradient.Total(all, gradient.scratch.bias, k, kMostLanes);
        }
        return absl::OkStatus();
      },
      gradient.bytes());
}

}  // namespace colonnade::cpu
