// Longer than most sources: convolution and weight gradient share tiles, groups and the choice of products, and their
// kernels are compiled together.
#include "cpu/ops/conv_winograd.h"

#include <algorithm>
#include <array>

#include "cpu/about.h"
#include "cpu/ops/element.h"
#include "cpu/ops/winograd_loops.h"
#include "cpu/threads/parallel.h"
#include "program/formulas/rounding.h"
#include "program/product_uses.h"

namespace colonnade::cpu {

using program::CeilDiv;
using program::DType;
using program::RoundUp;
using program::Shape;
using program::Window;

namespace {

constexpr int64_t kLeastTiles = 16;               // of a thread: with fewer, it mostly transforms weights and pads products
constexpr int64_t kBytesOfTilesNear = 768 << 10;  // for the tiles of one thread: three quarters of an L2 cache of 1 MiB
constexpr int64_t kBytesOfTilesFar = 8 << 20;     // for the tiles that all threads share: part of the L3 cache
constexpr int64_t kMostSums = 16 << 20;           // floats, of all threads, that have sums of their own
constexpr int64_t kPairBlocks = 2;                // blocks of outputs that products are taken for at once, at most
constexpr int64_t kMostTaps = 25;

// Of 16 channels, which are a square of pixels of one channel where the stride is not 1.
int64_t BlocksOf(const Shape& images, int64_t stride) { return stride == 1 ? images[1] / kChannelBlock : images[1]; }

// Images as the tiles of `tiled`, which are of y, or the patches that these read of x.
template <class Factor>
TiledImages Tiled(const View& images, const View& tiled, int64_t stride = 1, int64_t top = 0, int64_t left = 0) {
  return {.tile = kTileSize<Factor>,
          .stride = stride,
          .bf16 = images.dtype == DType::kBF16,
          .blocks = BlocksOf(images.shape, stride),
          .rows = images.shape[2],
          .columns = images.shape[3],
          .down = CeilDiv(tiled.shape[2], kTileSize<Factor>),
          .across = CeilDiv(tiled.shape[3], kTileSize<Factor>),
          .top = top,
          .left = left};
}

// Tiles that are transformed at once, of `bytes` each, so that all of them take about `most` bytes.
int64_t TilesAtOnce(int64_t bytes, int64_t most, int64_t tiles) {
  constexpr int64_t kFewest = 24, kMost = 512;
  const int64_t at_once = std::clamp(most / bytes, kFewest, kMost);
  return EvenPart(tiles, at_once);
}

// Part `part` of `parts` of the tiles [first, end), in all blocks.
// None of squares: their rows are long, and the processor fetches those by itself.
TilesAhead PartOf(const TiledImages& of, const void* images, int64_t first, int64_t end, int64_t part, int64_t parts) {
  if (of.stride != 1) return {of};
  const int64_t begin = (end - first) * part / parts;
  return {of, images, first + begin, (end - first) * (part + 1) / parts - begin, 0, of.blocks};
}

// Channels of one group in blocks, its window, and its tiles.
struct Group {
  int64_t count;  // of groups
  int64_t inputs, outputs;
  int64_t size, stride;  // of the window, in pixels
  // The transform counts these in pixels, or in squares of kSquareSize² pixels of the input if the convolution has a stride.
  int64_t window, tile;

  // Makes the geometry of one group of a convolution of `from` to `to`, or of its gradient.
  Group(const View& from, const View& to, int64_t groups, const Window& of, int64_t tile)
      : count(groups),
        inputs(BlocksOf(from.shape, of.stride_h) / groups),
        outputs(to.shape[1] / groups / kChannelBlock),
        size(of.size_h),
        stride(of.stride_h),
        window(CeilDiv(size, stride)),
        tile(tile) {}

  int64_t taps() const { return window * window; }
  int64_t points() const { return Points(tile, window); }
  int64_t pairs() const { return CeilDiv(outputs, kPairBlocks); }
  int64_t points_of_output() const { return points() * inputs * kChannelBlock * kChannelBlock; }  // of a block of outputs

  // Weights of one output, and where among them that of an input and tap stands; -1: nowhere, as it is zero.
  int64_t filter() const { return stride == 1 ? inputs * kChannelBlock * taps() : inputs * size * size; }
  int64_t IndexInFilter(int64_t input, int64_t tap) const {
    if (stride == 1) return input * taps() + tap;
    const int64_t lane = input % kChannelBlock, row = tap / window * kSquareSize + lane / kSquareSize,
                  column = tap % window * kSquareSize + lane % kSquareSize;
    return row < size && column < size ? (input / kChannelBlock * size + row) * size + column : -1;
  }
};

// A block of inputs, or all, and up to kPairBlocks of outputs of a group; blocks are counted over all groups.
struct Pair {
  int64_t input, output, outputs;
};

// Floats that take as much memory as `count` factors.
template <class Factor>
int64_t FloatsOf(int64_t count) {
  return CeilDiv(count * static_cast<int64_t>(sizeof(Factor)), static_cast<int64_t>(sizeof(float)));
}
template <class Factor>
Factor* FactorsAt(float* memory) {
  return reinterpret_cast<Factor*>(memory);
}

// y = the convolution of x, or dx of dy. The workspace has the transformed weights, the bias, then patches and
// products of each thread.
template <class Factor>
struct TiledConvolution {
  Group group;
  const WinogradLoops<Factor>* loops;
  TiledImages x, y;
  int64_t tiles;  // of all images
  int threads;
  bool relu;
  bool turned;                           // w [inputs, outputs, …] is read from its last tap to its first
  int64_t tiles_at_once, tile_capacity;  // tiles that a thread works on at once, and those that its memory has room for
  // Of all transformed weights; of a thread's patches; of all of a thread's memory.
  int64_t weight_floats, patch_floats, thread_floats;

  TiledConvolution(const View& from, const View& to, const Group& group, int64_t top, int64_t left, int threads, bool relu,
                   bool turned)
      : group(group),
        loops(FindWinogradLoops<Factor>(group.window)),
        x(Tiled<Factor>(from, to, group.stride, top, left)),
        y(Tiled<Factor>(to, to)),
        threads(threads),
        relu(relu),
        turned(turned) {
    tiles = to.shape[0] * y.down * y.across;
    const int64_t bytes_of_tile =
        group.points() * kChannelBlock *
        (x.blocks * static_cast<int64_t>(sizeof(Factor)) + kPairBlocks * static_cast<int64_t>(sizeof(float)));
    tiles_at_once = RoundUp(TilesAtOnce(bytes_of_tile, kBytesOfTilesNear, CeilDiv(tiles, threads)), kTilesOfProduct);
    tile_capacity = tiles_at_once + kSpareTiles;
    weight_floats = FloatsOf<Factor>(y.blocks * group.points_of_output());
    patch_floats = FloatsOf<Factor>(group.points() * PointSize<Factor>(x.blocks, tile_capacity));
    thread_floats = patch_floats + kPairBlocks * group.points() * PointSize<float>(1, tile_capacity);
  }

  int64_t floats() const { return weight_floats + y.blocks * kChannelBlock + threads * thread_floats; }

  // to [taps][16] = the weights from `input` of its group to 16 outputs from `output` on.
  template <class Weight>
  void GatherTaps(const Weight* w, int64_t output, int64_t input, float* to) const {
    const int64_t outputs = group.outputs * kChannelBlock, inputs = group.inputs * kChannelBlock, taps = group.taps();
    const Weight* of_group = w + output / outputs * (turned ? inputs * outputs * taps : outputs * group.filter());
    for (int64_t tap = 0; tap < taps; ++tap) {
      float* of_tap = to + tap * kChannelBlock;
      const int64_t index = turned ? output % outputs * taps + taps - 1 - tap : group.IndexInFilter(input, tap);
      if (index < 0) {
        std::fill_n(of_tap, kChannelBlock, 0.0f);
        continue;
      }
      const Weight* from = of_group + (turned ? input * outputs * taps : output % outputs * group.filter()) + index;
      const int64_t step = turned ? taps : group.filter();
      for (int64_t lane = 0; lane < kChannelBlock; ++lane) of_tap[lane] = from[lane * step];
    }
  }

  // u [y.blocks][points][inputs][16] = G w Gᵀ, rows joined.
  template <class Weight>
  void TransformWeights(const Weight* w, Factor* u) const {
    const int64_t inputs = group.inputs * kChannelBlock;
    constexpr int64_t kTogether = kFactorsOfSum<Factor>;  // inputs
    ParallelFor(threads, y.blocks * inputs / kTogether, [&](int64_t begin, int64_t end) {
      std::array<float, kMostTaps * kChannelBlock> taps;
      for (int64_t i = begin * kTogether; i < end * kTogether; i += kTogether) {
        const int64_t block = i / inputs, first = i % inputs;
        Factor* rows = u + block * group.points_of_output() + first * kChannelBlock;
        for (int64_t input = 0; input < kTogether; ++input) {
          GatherTaps(w, block * kChannelBlock, first + input, taps.data());
          loops->transform_weights(taps.data(), inputs * kChannelBlock, rows + input * kChannelBlock);
        }
        if constexpr (kTogether == 1) continue;
        for (int64_t p = 0; p < group.points(); ++p) loops->join_rows(kTogether, rows + p * inputs * kChannelBlock);
      }
    });
  }

  // The inputs of a group and pair `index` of its outputs.
  Pair PairOf(int64_t index) const {
    const int64_t of_group = index / group.pairs(), k = index % group.pairs() * kPairBlocks;
    return {of_group * group.inputs, of_group * group.outputs + k, std::min(kPairBlocks, group.outputs - k)};
  }

  // The tiles [begin, end) of y, by one thread with memory of its own.
  void RunTiles(int64_t begin, int64_t end, const void* images, const Factor* u, const float* bias, float* own,
                void* to) const {
    const int64_t pairs = group.count * group.pairs(), v_point = PointSize<Factor>(x.blocks, tile_capacity);
    Factor* v = FactorsAt<Factor>(own);
    float* m = own + patch_floats;
    for (int64_t first = begin; first < end; first += tiles_at_once) {
      const int64_t count = std::min(tiles_at_once, end - first), next = first + count,
                    next_end = std::min(next + tiles_at_once, end);
      loops->read_patches(x, images, first, count, tile_capacity, v);
      for (int64_t index = 0; index < pairs; ++index) {
        const Pair pair = PairOf(index);
        loops->multiply(count, group.inputs, pair.outputs, tile_capacity, v + pair.input * tile_capacity * kChannelBlock,
                        v_point, u + pair.output * group.points_of_output(), m,
                        {PartOf(x, images, next, next_end, index, pairs), {y, to, first, count, pair.output, pair.outputs}});
        for (int64_t b = 0; b < pair.outputs; ++b) {
          const int64_t block = pair.output + b;
          loops->write_tiles(y, m + b * group.points() * PointSize<float>(1, tile_capacity), block, first, count,
                             tile_capacity, bias == nullptr ? nullptr : bias + block * kChannelBlock, relu, to);
        }
      }
    }
  }

  // The workspace begins with the transformed weights.
  void Run(const void* images, const float* bias, float* workspace, void* to) const {
    char* of_threads = reinterpret_cast<char*>(workspace + weight_floats + y.blocks * kChannelBlock);
    ParallelForWithScratch(threads, tiles, thread_floats, of_threads, [&](int64_t begin, int64_t end, float* own) {
      RunTiles(begin, end, images, FactorsAt<Factor>(workspace), bias, own, to);
    });
  }
};

// to = the numbers of operand `use`, in float.
void CopyTo(const RunArguments& run, const TaskContext& context, int use, float* to) {
  WithElement(context.view(use).dtype, [&]<class T>(T) {
    const T* from = DataOf<const T>(run, context, use);
    std::copy(from, from + context.view(use).shape[0], to);
  });
}

template <class Factor>
PreparedKernel KernelOfTiles(const TiledConvolution<Factor>& convolution, const TaskContext& context, int bias, int y) {
  return MakeKernel(
      [=](const RunArguments& run) {
        float* workspace = reinterpret_cast<float*>(run.workspace);
        WithElement(context.view(1).dtype, [&]<class Weight>(Weight) {
          convolution.TransformWeights(DataOf<const Weight>(run, context, 1), FactorsAt<Factor>(workspace));
        });
        float* biases = workspace + convolution.weight_floats;
        if (bias >= 0) CopyTo(run, context, bias, biases);
        convolution.Run(BytesOf(run, context, 0), bias < 0 ? nullptr : biases, workspace, BytesOf(run, context, y));
        return absl::OkStatus();
      },
      convolution.floats() * static_cast<int64_t>(sizeof(float)));
}

// dw = Σ over tiles of x and dy. Where there are many pairs of blocks, one team of all threads shares the tiles that it has
// at hand, and each thread sums pairs of its own; where there are few, each thread is a team and sums tiles of its own.
template <class Factor>
struct TiledGradient {
  static constexpr int64_t kTogether = kFactorsOfSum<Factor>;  // tiles

  Group group;
  const WinogradLoops<Factor>* loops;
  TiledImages x, y;
  int64_t tiles;  // of all images
  bool bias;
  int threads, teams;
  int64_t pairs;
  int64_t tiles_at_once;
  // Floats of one team, and where in them its tiles of y and its sums [taps][inputs of a group][outputs] begin.
  int64_t y_tiles, sums, team_floats;
  // Floats of one thread: products, then from bias_sums on the sums [outputs] of the tiles that it has at hand, and behind
  // them those of all its tiles, in double.
  int64_t bias_sums, thread_floats;

  TiledGradient(const View& from, const View& to, const Group& group, const Window& window, bool bias, int threads)
      : group(group),
        loops(FindWinogradLoops<Factor>(group.window)),
        x(Tiled<Factor>(from, to, group.stride, window.pad_top, window.pad_left)),
        y(Tiled<Factor>(to, to)),
        bias(bias),
        threads(threads) {
    constexpr int64_t kPairsOfThread = 4;
    tiles = to.shape[0] * y.down * y.across;
    pairs = group.count * group.inputs * group.pairs();
    const int64_t sums_of_team = group.taps() * inputs() * outputs();
    teams = pairs < kPairsOfThread * threads && threads * sums_of_team <= kMostSums ? threads : 1;
    const int64_t bytes_of_tile =
        group.points() * kChannelBlock * (x.blocks + y.blocks) * static_cast<int64_t>(sizeof(Factor));
    tiles_at_once = RoundUp(
        TilesAtOnce(bytes_of_tile, teams == 1 && threads > 1 ? kBytesOfTilesFar : kBytesOfTilesNear, CeilDiv(tiles, teams)),
        kTogether);
    y_tiles = FloatsOf<Factor>(group.points() * x_point());
    sums = y_tiles + FloatsOf<Factor>(group.points() * y_point());
    team_floats = sums + sums_of_team;
    bias_sums = group.points() * kChannelBlock * kChannelBlock * kPairBlocks;
    thread_floats = bias_sums + outputs() + 2 * outputs();
  }

  int64_t inputs() const { return group.inputs * kChannelBlock; }
  int64_t outputs() const { return y.blocks * kChannelBlock; }
  int64_t x_point() const { return PointSize<Factor>(x.blocks, tiles_at_once); }
  int64_t y_point() const { return PointSize<Factor>(y.blocks, tiles_at_once); }
  int64_t floats() const { return teams * team_floats + threads * thread_floats; }
  Factor* XTiles(float* team) const { return FactorsAt<Factor>(team); }
  Factor* YTiles(float* team) const { return FactorsAt<Factor>(team + y_tiles); }
  float* BiasSums(float* own) const { return own + bias_sums; }
  double* BiasTotals(float* own) const { return reinterpret_cast<double*>(BiasSums(own) + outputs()); }

  Pair PairOf(int64_t index) const {
    const int64_t of_input = index / group.pairs(), k = index % group.pairs() * kPairBlocks;
    return {of_input, of_input / group.inputs * group.outputs + k, std::min(kPairBlocks, group.outputs - k)};
  }

  // Adds a pair's products of `count` tiles to the team's sums.
  void AddPair(const Pair& pair, int64_t count, float* team, float* products, const Ahead& ahead) const {
    const int64_t row = pair.outputs * kChannelBlock, first_input = pair.input % group.inputs * kChannelBlock;
    loops->sum_products(count, pair.outputs, tiles_at_once, XTiles(team) + pair.input * tiles_at_once * kChannelBlock,
                        x_point(), YTiles(team) + pair.output * tiles_at_once * kChannelBlock, y_point(), products, ahead);
    for (int64_t input = 0; input < kChannelBlock; ++input) {
      for (int64_t b = 0; b < pair.outputs; ++b) {
        float* to = team + sums + (first_input + input) * outputs() + (pair.output + b) * kChannelBlock;
        loops->add_weights(products + input * row + b * kChannelBlock, kChannelBlock * row, inputs() * outputs(), to);
      }
    }
  }

  // Joins the rows of `count` tiles, from number `first` of those at hand on, in pairs, and a last odd row with zeros; a
  // point lies `point` factors behind the one before.
  void JoinTiles(int64_t first, int64_t count, int64_t blocks, int64_t point, Factor* tiles_at_hand) const {
    if constexpr (kTogether == 1) return;
    for (int64_t p = 0; p < group.points(); ++p) {
      for (int64_t b = 0; b < blocks; ++b) {
        Factor* rows = tiles_at_hand + p * point + (b * tiles_at_once + first) * kChannelBlock;
        const int64_t joined = RoundUp(count, kTogether);
        std::fill(rows + count * kChannelBlock, rows + joined * kChannelBlock, Factor{});
        loops->join_rows(joined, rows);
      }
    }
  }

  // Tiles [from, to) of those at hand, of which number 0 is tile `first` of all, and their pixels' sums.
  void ReadTiles(const void* images, const void* dy, int64_t first, int64_t from, int64_t to, float* team,
                 float* own) const {
    loops->read_patches(x, images, first + from, to - from, tiles_at_once, XTiles(team) + from * kChannelBlock);
    float* of_pixels = bias ? BiasSums(own) : nullptr;
    if (bias) std::fill_n(of_pixels, outputs(), 0.0f);
    loops->read_tiles(y, dy, first + from, to - from, tiles_at_once, YTiles(team) + from * kChannelBlock, of_pixels);
    for (int64_t k = 0; bias && k < outputs(); ++k) BiasTotals(own)[k] += of_pixels[k];
    JoinTiles(from, to - from, x.blocks, x_point(), XTiles(team));
    JoinTiles(from, to - from, y.blocks, y_point(), YTiles(team));
  }

  // The tiles [begin, end), by `threads_of_team` threads, each with memory of its own.
  void AddTiles(const void* images, const void* dy, int64_t begin, int64_t end, int threads_of_team, float* team,
                char* of_threads) const {
    ParallelForWithScratch(threads_of_team, team_floats - sums, thread_floats, of_threads,
                           [&](int64_t from, int64_t to, float* own) {
                             std::fill(team + sums + from, team + sums + to, 0.0f);
                             std::fill_n(BiasTotals(own), outputs(), 0.0);
                           });
    for (int64_t first = begin; first < end; first += tiles_at_once) {
      const int64_t count = std::min(tiles_at_once, end - first), next = first + count,
                    next_end = std::min(next + tiles_at_once, end);
      ParallelForWithScratch(threads_of_team, CeilDiv(count, kTogether), thread_floats, of_threads,
                             [&](int64_t from, int64_t to, float* own) {
                               ReadTiles(images, dy, first, from * kTogether, std::min(to * kTogether, count), team, own);
                             });
      ParallelForWithScratch(threads_of_team, pairs, thread_floats, of_threads, [&](int64_t from, int64_t to, float* own) {
        for (int64_t pair = from; pair < to; ++pair) {
          AddPair(PairOf(pair), count, team, own,
                  {PartOf(x, images, next, next_end, pair, pairs), PartOf(y, dy, next, next_end, pair, pairs)});
        }
      });
    }
  }

  // Σ over `count` places, `stride` apart.
  template <class T>
  static T Total(const T* first, int64_t stride, int count) {
    T total = *first;
    for (int i = 1; i < count; ++i) total += first[i * stride];
    return total;
  }

  // dw [outputs, inputs, …], and db unless it is null: the sums of all teams and threads, a block of outputs at a time.
  void Write(float* workspace, float* dw, float* db) const {
    const double* totals = BiasTotals(workspace + teams * team_floats);  // of the first thread
    ParallelFor(threads, y.blocks, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin * kChannelBlock; k < end * kChannelBlock; k += kChannelBlock) {
        for (int64_t i = 0; i < inputs() * group.taps(); ++i) {
          const int64_t input = i / group.taps(), tap = i % group.taps(), index = group.IndexInFilter(input, tap);
          const float* row = workspace + sums + (tap * inputs() + input) * outputs() + k;
          for (int64_t lane = 0; index >= 0 && lane < kChannelBlock; ++lane) {
            dw[(k + lane) * group.filter() + index] = Total(row + lane, team_floats, teams);
          }
        }
        for (int64_t lane = 0; db != nullptr && lane < kChannelBlock; ++lane) {
          db[k + lane] = static_cast<float>(Total(totals + k + lane, thread_floats / 2, threads));
        }
      }
    });
  }

  void Run(const void* images, const void* dy, float* workspace, float* dw, float* db) const {
    float* of_threads = workspace + teams * team_floats;
    ParallelFor(teams, teams, [&](int64_t first, int64_t last) {
      for (int64_t team = first; team < last; ++team) {
        AddTiles(images, dy, tiles * team / teams, tiles * (team + 1) / teams, threads / teams,
                 workspace + team * team_floats, reinterpret_cast<char*>(of_threads + team * thread_floats));
      }
    });
    Write(workspace, dw, db);
  }
};

// How a convolution's tiles are multiplied.
enum class Products { kNone, kFloats, kBf16 };

template <class Factor>
int64_t TilesOfImage(const Shape& y) {
  return CeilDiv(y[2], kTileSize<Factor>) * CeilDiv(y[3], kTileSize<Factor>);
}

// Whether there are loops for it, and they multiply less often than direct ones, by a quarter.
template <class Factor>
bool MultipliesLess(const Window& window, const Shape& y) {
  const int64_t side = CeilDiv(window.size_h, window.stride_h), of_pixel = window.stride_h * window.stride_w;
  return FindWinogradLoops<Factor>(side) != nullptr &&
         4 * TilesOfImage<Factor>(y) * Points(kTileSize<Factor>, side) * of_pixel <=
             3 * y[2] * y[3] * window.size_h * window.size_w;
}

// Returns how to multiply so that it takes less time than oneDNN's direct kernels in bf16; docs/performance.md has the
// bounds. Factors in bf16 take twice the transformations, which many channels are worth; weights of more floats come from
// memory.
Products ProductsOfBf16(const Window& window, int64_t inputs, int64_t outputs, const Shape& y) {
  constexpr int64_t kFewest = 32, kMostOfFloats = 384, kFewestOfBf16 = 160;
  switch (Bf16KernelsHere()) {
    case Bf16Kernels::kAmx:
      return Products::kNone;
    case Bf16Kernels::kAvx512:
      if (std::min(inputs, outputs) < kFewest) return Products::kNone;
      if (MultipliesLess<Bf16>(window, y) && inputs + outputs >= 2 * kFewestOfBf16) return Products::kBf16;
      if (std::max(inputs, outputs) > kMostOfFloats) return Products::kNone;
      break;
    case Bf16Kernels::kEmulated:
    case Bf16Kernels::kNone:
      break;
  }
  return MultipliesLess<float>(window, y) ? Products::kFloats : Products::kNone;
}

// Squares are of one group: a few channels that are split further are too few.
bool HasStride(const Window& window, int64_t groups) {
  const bool moves_by_one = window.stride_h == 1, moves_by_squares = window.stride_h == kSquareSize && groups == 1;
  return window.stride_h == window.stride_w && (moves_by_one || moves_by_squares);
}

Products ProductsOf(const Window& window, int64_t groups, DType dtype, const Shape& x, const Shape& y) {
  if (!HasStride(window, groups) || window.size_h != window.size_w) return Products::kNone;
  const int64_t pixels = window.stride_h * window.stride_w;  // that are channels
  const int64_t inputs = x[1] * pixels / groups, outputs = y[1] / groups;
  const bool fills_blocks = inputs % kChannelBlock == 0 && outputs % kChannelBlock == 0 && std::min(inputs, outputs) > 0;
  const int64_t pad = std::max({window.pad_top, window.pad_bottom, window.pad_left, window.pad_right});
  if (!fills_blocks || pad >= window.size_h) return Products::kNone;
  if (dtype == DType::kBF16) return ProductsOfBf16(window, inputs, outputs, y);
  return MultipliesLess<float>(window, y) ? Products::kFloats : Products::kNone;
}

// Calls make with a factor of the type that is multiplied.
template <class Op, class Make>
PreparedKernel WithFactor(const Op& op, const View& x, const View& y, const Make& make) {
  return ProductsOf(op.window, op.groups, x.dtype, x.shape, y.shape) == Products::kBf16 ? make(Bf16{}) : make(float{});
}

}  // namespace

bool ConvolvesByWinograd(const Window& window, int64_t groups, DType dtype, const Shape& x, const Shape& y) {
  return ProductsOf(window, groups, dtype, x, y) != Products::kNone;
}

bool HasTilesForWinograd(const Shape& y, int threads) { return y[0] * TilesOfImage<float>(y) >= kLeastTiles * threads; }

PreparedKernel PrepareByWinograd(const program::ConvForward& op, const TaskContext& context) {
  const program::ProductUses uses = program::ForwardUses(op.bias);
  const View &x = context.view(uses.x), &y = context.view(uses.y);
  return WithFactor(op, x, y, [&]<class Factor>(Factor) {
    const TiledConvolution<Factor> convolution(x, y, Group(x, y, op.groups, op.window, kTileSize<Factor>), op.window.pad_top,
                                               op.window.pad_left, context.threads, op.relu,
                                               /*turned=*/false);
    return KernelOfTiles(convolution, context, uses.bias, uses.y);
  });
}

// dx is the convolution of dy by the weights turned about, with the padding that completes a window.
PreparedKernel PrepareByWinograd(const program::ConvBackwardData& op, const TaskContext& context) {
  constexpr program::ProductUses kUses = program::BackwardDataUses();
  const View &dy = context.view(kUses.y), &dx = context.view(kUses.x);
  const Window& window = op.window;
  return WithFactor(op, dx, dy, [&]<class Factor>(Factor) {
    const TiledConvolution<Factor> convolution(dy, dx, Group(dy, dx, op.groups, window, kTileSize<Factor>),
                                               window.size_h - 1 - window.pad_top, window.size_w - 1 - window.pad_left,
                                               context.threads, /*relu=*/false, /*turned=*/true);
    return KernelOfTiles(convolution, context, kUses.kNone, kUses.x);
  });
}

PreparedKernel PrepareByWinograd(const program::ConvBackwardWeights& op, const TaskContext& context) {
  const program::ProductUses uses = program::BackwardWeightsUses(op.bias);
  const View &x = context.view(uses.x), &y = context.view(uses.y);
  return WithFactor(op, x, y, [&]<class Factor>(Factor) {
    const TiledGradient<Factor> gradient(x, y, Group(x, y, op.groups, op.window, kTileSize<Factor>), op.window, op.bias,
                                         context.threads);
    return MakeKernel(
        [gradient, context, uses](const RunArguments& run) {
          gradient.Run(BytesOf(run, context, uses.x), BytesOf(run, context, uses.y), reinterpret_cast<float*>(run.workspace),
                       DataOf<float>(run, context, uses.w),
                       gradient.bias ? DataOf<float>(run, context, uses.bias) : nullptr);
          return absl::OkStatus();
        },
        gradient.floats() * static_cast<int64_t>(sizeof(float)));
  });
}

}  // namespace colonnade::cpu
