#include "cpu/ops/conv_winograd.h"

#include <algorithm>
#include <array>

#include "cpu/about.h"
#include "cpu/load/arena.h"
#include "cpu/ops/element.h"
#include "cpu/ops/row_loops.h"
#include "cpu/ops/winograd_loops.h"
#include "cpu/threads/parallel.h"

namespace colonnade::cpu {

using program::DType;
using program::Shape;
using program::Window;

namespace {

constexpr int64_t kLeastTiles = 16;         // of a thread: with fewer, it mostly transforms weights and pads products
constexpr int64_t kNearFloats = 192 << 10;  // of the tiles that one thread has at hand: three quarters of a second cache
constexpr int64_t kFarFloats = 2 << 20;     // of the tiles that all threads share: part of a third cache
constexpr int64_t kMostSums = 16 << 20;     // floats, of all threads, that have sums of their own
constexpr int64_t kPairBlocks = 2;          // blocks of outputs that products are taken for at once, at most
constexpr int64_t kMostTaps = 25;

// Images as the tiles of `tiled`, which are of y, or the patches that these read of x.
TiledImages Tiled(const View& images, const View& tiled, int64_t window, int64_t top = 0, int64_t left = 0) {
  return {.window = window,
          .bf16 = images.dtype == DType::kBF16,
          .blocks = images.shape[1] / kChannelBlock,
          .rows = images.shape[2],
          .columns = images.shape[3],
          .down = CeilDiv(tiled.shape[2], kTileSize),
          .across = CeilDiv(tiled.shape[3], kTileSize),
          .top = top,
          .left = left};
}

// Tiles that are transformed at once, of `floats` floats each, so that all of them take about `most` floats.
int64_t TilesAtOnce(int64_t floats, int64_t most, int64_t tiles) {
  constexpr int64_t kFewest = 24, kMost = 512;
  const int64_t at_once = std::clamp(most / floats, kFewest, kMost);
  return EvenPart(tiles, at_once);
}

// Part `part` of `parts` of the tiles [first, end), in all blocks.
TilesAhead PartOf(const TiledImages& of, const void* images, int64_t first, int64_t end, int64_t part, int64_t parts) {
  const int64_t begin = (end - first) * part / parts;
  return {of, images, first + begin, (end - first) * (part + 1) / parts - begin, 0, of.blocks};
}

// Channels of one group in blocks, and its window.
struct Group {
  int64_t count;  // of groups
  int64_t inputs, outputs;
  int64_t window;

  // Of a convolution of `from` to `to`, or back.
  Group(const View& from, const View& to, int64_t groups, int64_t window)
      : count(groups),
        inputs(from.shape[1] / groups / kChannelBlock),
        outputs(to.shape[1] / groups / kChannelBlock),
        window(window) {}

  int64_t taps() const { return window * window; }
  int64_t points() const { return Points(window); }
  int64_t pairs() const { return CeilDiv(outputs, kPairBlocks); }
  int64_t weights() const { return inputs * outputs * kChannelBlock * kChannelBlock * taps(); }
  int64_t points_of_output() const { return points() * inputs * kChannelBlock * kChannelBlock; }  // of a block of outputs
};

// A block of inputs, or all, and up to kPairBlocks of outputs of a group; blocks are counted over all groups.
struct Pair {
  int64_t input, output, outputs;
};

// y = the convolution of x, or dx of dy. The workspace has the transformed weights, the bias, then patches and
// products of each thread.
struct TiledConvolution {
  const WinogradLoops* loops = FindWinogradLoops();
  Group group;
  TiledImages x, y;
  int64_t tiles;  // of all images
  int threads;
  bool relu;
  bool turned;                                         // w [inputs, outputs, …] is read from its last tap to its first
  int64_t at_once, room, weights, patches, of_thread;  // floats but for the first two

  TiledConvolution(const View& from, const View& to, const Group& group, int64_t top, int64_t left, int threads, bool relu,
                   bool turned)
      : group(group),
        x(Tiled(from, to, group.window, top, left)),
        y(Tiled(to, to, group.window)),
        threads(threads),
        relu(relu),
        turned(turned) {
    tiles = to.shape[0] * y.down * y.across;
    const int64_t in_tile = group.points() * kChannelBlock * (x.blocks + kPairBlocks);
    at_once = RoundUp(TilesAtOnce(in_tile, kNearFloats, CeilDiv(tiles, threads)), kTilesOfProduct);
    room = at_once + kSpareTiles;
    weights = y.blocks * group.points_of_output();
    patches = group.points() * PointFloats(x.blocks, room);
    of_thread = patches + kPairBlocks * group.points() * PointFloats(1, room);
  }

  int64_t floats() const { return weights + y.blocks * kChannelBlock + threads * of_thread; }

  // to [taps][16] = the weights from `input` of its group to 16 outputs from `output` on.
  template <class Weight>
  void GatherTaps(const Weight* w, int64_t output, int64_t input, float* to) const {
    const int64_t inputs = group.inputs * kChannelBlock, outputs = group.outputs * kChannelBlock, taps = group.taps();
    const Weight* of_group = w + output / outputs * group.weights();
    for (int64_t lane = 0; lane < kChannelBlock; ++lane) {
      const int64_t k = output % outputs + lane;
      const Weight* from = of_group + (turned ? input * outputs + k : k * inputs + input) * taps;
      for (int64_t tap = 0; tap < taps; ++tap) to[tap * kChannelBlock + lane] = from[turned ? taps - 1 - tap : tap];
    }
  }

  // u [y.blocks][points][inputs][16] = G w Gᵀ.
  template <class Weight>
  void TransformWeights(const Weight* w, float* u) const {
    const int64_t inputs = group.inputs * kChannelBlock;
    ParallelFor(threads, y.blocks * inputs, [&](int64_t begin, int64_t end) {
      std::array<float, kMostTaps * kChannelBlock> taps;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / inputs, input = i % inputs;
        GatherTaps(w, block * kChannelBlock, input, taps.data());
        loops->transform_weights(group.window, taps.data(), inputs * kChannelBlock,
                                 u + block * group.points_of_output() + input * kChannelBlock);
      }
    });
  }

  // The inputs of a group and pair `index` of its outputs.
  Pair PairOf(int64_t index) const {
    const int64_t of_group = index / group.pairs(), k = index % group.pairs() * kPairBlocks;
    return {of_group * group.inputs, of_group * group.outputs + k, std::min(kPairBlocks, group.outputs - k)};
  }

  // The tiles [begin, end) of y, by one thread with `v` of its own.
  void RunTiles(int64_t begin, int64_t end, const void* images, const float* u, const float* bias, float* v,
                void* to) const {
    const int64_t pairs = group.count * group.pairs();
    float* m = v + patches;
    for (int64_t first = begin; first < end; first += at_once) {
      const int64_t count = std::min(at_once, end - first), next = first + count, next_end = std::min(next + at_once, end);
      loops->read_patches(x, images, first, count, room, v);
      for (int64_t index = 0; index < pairs; ++index) {
        const Pair pair = PairOf(index);
        loops->multiply(group.window, count, group.inputs, pair.outputs, room, v + pair.input * room * kChannelBlock,
                        PointFloats(x.blocks, room), u + pair.output * group.points_of_output(), m,
                        {PartOf(x, images, next, next_end, index, pairs), {y, to, first, count, pair.output, pair.outputs}});
        for (int64_t b = 0; b < pair.outputs; ++b) {
          const int64_t block = pair.output + b;
          loops->write_tiles(y, m + b * group.points() * PointFloats(1, room), block, first, count, room,
                             bias == nullptr ? nullptr : bias + block * kChannelBlock, relu, to);
        }
      }
    }
  }

  // The workspace begins with the transformed weights.
  void Run(const void* images, const float* bias, float* workspace, void* to) const {
    char* of_threads = reinterpret_cast<char*>(workspace + weights + y.blocks * kChannelBlock);
    ParallelForWithScratch(threads, tiles, of_thread, of_threads, [&](int64_t begin, int64_t end, float* v) {
      RunTiles(begin, end, images, workspace, bias, v, to);
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

PreparedKernel KernelOfTiles(const TiledConvolution& convolution, const TaskContext& context, int bias, int y) {
  return KernelOf(
      [=](const RunArguments& run) {
        float* workspace = reinterpret_cast<float*>(run.workspace);
        WithElement(context.view(1).dtype, [&]<class Weight>(Weight) {
          convolution.TransformWeights(DataOf<const Weight>(run, context, 1), workspace);
        });
        float* biases = workspace + convolution.weights;
        if (bias >= 0) CopyTo(run, context, bias, biases);
        convolution.Run(BytesOf(run, context, 0), bias < 0 ? nullptr : biases, workspace, BytesOf(run, context, y));
        return absl::OkStatus();
      },
      convolution.floats() * static_cast<int64_t>(sizeof(float)));
}

// dw = Σ over tiles of x and dy. Where there are many pairs of blocks, one team of all threads shares the tiles that it has
// at hand, and each thread sums pairs of its own; where there are few, each thread is a team and sums tiles of its own.
struct TiledGradient {
  const WinogradLoops* loops = FindWinogradLoops();
  Group group;
  TiledImages x, y;
  int64_t tiles;  // of all images
  bool bias;
  int threads, teams;
  int64_t pairs;
  int64_t at_once;
  // Floats of one team, and where in them its tiles of y and its sums begin: [taps][inputs of a group][outputs], [outputs].
  int64_t y_tiles, sums, bias_sums, of_team;
  int64_t of_thread;

  TiledGradient(const View& from, const View& to, const Group& group, const Window& window, bool bias, int threads)
      : group(group),
        x(Tiled(from, to, group.window, window.pad_top, window.pad_left)),
        y(Tiled(to, to, group.window)),
        bias(bias),
        threads(threads) {
    constexpr int64_t kPairsOfThread = 4;
    tiles = to.shape[0] * y.down * y.across;
    pairs = group.count * group.inputs * group.pairs();
    const int64_t sums_of_team = group.taps() * inputs() * outputs();
    teams = pairs < kPairsOfThread * threads && threads * sums_of_team <= kMostSums ? threads : 1;
    const int64_t in_tile = group.points() * kChannelBlock * (x.blocks + y.blocks);
    at_once = TilesAtOnce(in_tile, teams == 1 && threads > 1 ? kFarFloats : kNearFloats, CeilDiv(tiles, teams));
    y_tiles = group.points() * PointFloats(x.blocks, at_once);
    sums = y_tiles + group.points() * PointFloats(y.blocks, at_once);
    bias_sums = sums + sums_of_team;
    of_team = bias_sums + outputs();
    of_thread = group.points() * kChannelBlock * kChannelBlock * kPairBlocks;
  }

  int64_t inputs() const { return group.inputs * kChannelBlock; }
  int64_t outputs() const { return y.blocks * kChannelBlock; }
  int64_t floats() const { return teams * of_team + threads * of_thread; }

  Pair PairOf(int64_t index) const {
    const int64_t of_input = index / group.pairs(), k = index % group.pairs() * kPairBlocks;
    return {of_input, of_input / group.inputs * group.outputs + k, std::min(kPairBlocks, group.outputs - k)};
  }

  // Adds a pair's products of `count` tiles to the team's sums.
  void AddPair(const Pair& pair, int64_t count, float* team, float* products, const Ahead& ahead) const {
    const int64_t row = pair.outputs * kChannelBlock, first_input = pair.input % group.inputs * kChannelBlock;
    loops->sum_products(group.window, count, pair.outputs, at_once, team + pair.input * at_once * kChannelBlock,
                        PointFloats(x.blocks, at_once), team + y_tiles + pair.output * at_once * kChannelBlock,
                        PointFloats(y.blocks, at_once), products, ahead);
    for (int64_t input = 0; input < kChannelBlock; ++input) {
      for (int64_t b = 0; b < pair.outputs; ++b) {
        float* to = team + sums + (first_input + input) * outputs() + (pair.output + b) * kChannelBlock;
        loops->add_weights(group.window, products + input * row + b * kChannelBlock, kChannelBlock * row,
                           inputs() * outputs(), to);
      }
    }
  }

  // Σ of a tile is its value at the point where A dy Aᵀ adds all rows and columns.
  void AddBias(int64_t count, float* team) const {
    const int64_t sum_point = PatchSize(group.window) + 1;
    const float* tiles_of_sum = team + y_tiles + sum_point * PointFloats(y.blocks, at_once);
    for (int64_t k = 0; k < y.blocks; ++k) {
      FindRowLoops()->add_row(tiles_of_sum + k * at_once * kChannelBlock, count * kChannelBlock,
                              team + bias_sums + k * kChannelBlock);
    }
  }

  // The tiles [begin, end), by `threads_of_team` threads, each with products of its own.
  void AddTiles(const void* images, const void* dy, int64_t begin, int64_t end, int threads_of_team, float* team,
                char* products) const {
    ParallelFor(threads_of_team, of_team - sums,
                [&](int64_t from, int64_t to) { std::fill(team + sums + from, team + sums + to, 0.0f); });
    for (int64_t first = begin; first < end; first += at_once) {
      const int64_t count = std::min(at_once, end - first), next = first + count, next_end = std::min(next + at_once, end);
      ParallelFor(threads_of_team, count, [&](int64_t from, int64_t to) {
        loops->read_patches(x, images, first + from, to - from, at_once, team + from * kChannelBlock);
        loops->read_tiles(y, dy, first + from, to - from, at_once, team + y_tiles + from * kChannelBlock);
      });
      ParallelForWithScratch(threads_of_team, pairs, of_thread, products, [&](int64_t from, int64_t to, float* own) {
        for (int64_t pair = from; pair < to; ++pair) {
          AddPair(PairOf(pair), count, team, own,
                  {PartOf(x, images, next, next_end, pair, pairs), PartOf(y, dy, next, next_end, pair, pairs)});
        }
      });
      if (bias) AddBias(count, team);
    }
  }

  // dw [outputs, inputs, …], and db unless it is null: the sums of all teams, a block of outputs at a time.
  void Write(const float* workspace, float* dw, float* db) const {
    ParallelFor(threads, y.blocks, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin * kChannelBlock; k < end * kChannelBlock; k += kChannelBlock) {
        for (int64_t i = 0; i < inputs() * group.taps(); ++i) {
          const int64_t index = sums + (i % group.taps() * inputs() + i / group.taps()) * outputs() + k;
          for (int64_t lane = 0; lane < kChannelBlock; ++lane) {
            dw[(k + lane) * inputs() * group.taps() + i] = Total(workspace, index + lane);
          }
        }
        for (int64_t lane = 0; db != nullptr && lane < kChannelBlock; ++lane) {
          db[k + lane] = Total(workspace, bias_sums + k + lane);
        }
      }
    });
  }
  float Total(const float* workspace, int64_t index) const {
    float total = workspace[index];
    for (int64_t team = 1; team < teams; ++team) total += workspace[team * of_team + index];
    return total;
  }

  void Run(const void* images, const void* dy, float* workspace, float* dw, float* db) const {
    float* products = workspace + teams * of_team;
    ParallelFor(teams, teams, [&](int64_t first, int64_t last) {
      for (int64_t team = first; team < last; ++team) {
        AddTiles(images, dy, tiles * team / teams, tiles * (team + 1) / teams, threads / teams, workspace + team * of_team,
                 reinterpret_cast<char*>(products + team * of_thread));
      }
    });
    Write(workspace, dw, db);
  }
};

// Of one image.
int64_t TilesOf(const Shape& y) { return CeilDiv(y[2], kTileSize) * CeilDiv(y[3], kTileSize); }

// Whether products in float, fewer, take less time than oneDNN's direct ones in bf16.
bool BeatsBf16(int64_t channels) {
  constexpr int64_t kMostChannels = 384;  // docs/performance.md
  switch (Bf16KernelsHere()) {
    case Bf16Kernels::kAmx:
      return false;
    case Bf16Kernels::kAvx512:
      return channels <= kMostChannels;
    case Bf16Kernels::kEmulated:
    case Bf16Kernels::kNone:
      break;
  }
  return true;
}

}  // namespace

bool ConvolvesByWinograd(const Window& window, int64_t groups, DType dtype, const Shape& x, const Shape& y) {
  const bool moves_by_one = window.stride_h == 1 && window.stride_w == 1;
  const bool has_size = window.size_h == window.size_w && (window.size_h == 3 || window.size_h == 5);
  if (FindWinogradLoops() == nullptr || !moves_by_one || !has_size) return false;
  const int64_t inputs = x[1] / groups, outputs = y[1] / groups;
  const bool fills_blocks = inputs % kChannelBlock == 0 && outputs % kChannelBlock == 0 && std::min(inputs, outputs) > 0;
  const int64_t pad = std::max({window.pad_top, window.pad_bottom, window.pad_left, window.pad_right});
  const bool multiplies_less =
      4 * TilesOf(y) * Points(window.size_h) <= 3 * y[2] * y[3] * window.size_h * window.size_w;  // by a quarter
  return fills_blocks && pad < window.size_h && multiplies_less &&
         (dtype == DType::kF32 || BeatsBf16(std::max(inputs, outputs)));
}

bool HasTilesForWinograd(const Shape& y, int threads) { return y[0] * TilesOf(y) >= kLeastTiles * threads; }

PreparedKernel PrepareByWinograd(const program::ConvForward& op, const TaskContext& context) {
  const View &x = context.view(0), &y = context.view(op.bias ? 3 : 2);
  const TiledConvolution convolution(x, y, Group(x, y, op.groups, op.window.size_h), op.window.pad_top, op.window.pad_left,
                                     context.threads, op.relu, /*turned=*/false);
  return KernelOfTiles(convolution, context, op.bias ? 2 : -1, op.bias ? 3 : 2);
}

// dx is the convolution of dy by the weights turned about, with the padding that completes a window.
PreparedKernel PrepareByWinograd(const program::ConvBackwardData& op, const TaskContext& context) {
  const View &dy = context.view(0), &dx = context.view(2);
  const Window& window = op.window;
  const TiledConvolution convolution(dy, dx, Group(dy, dx, op.groups, window.size_h), window.size_h - 1 - window.pad_top,
                                     window.size_w - 1 - window.pad_left, context.threads, /*relu=*/false, /*turned=*/true);
  return KernelOfTiles(convolution, context, -1, 2);
}

PreparedKernel PrepareByWinograd(const program::ConvBackwardWeights& op, const TaskContext& context) {
  const View &x = context.view(0), &y = context.view(1);
  const TiledGradient gradient(x, y, Group(x, y, op.groups, op.window.size_h), op.window, op.bias, context.threads);
  return KernelOf(
      [gradient, context](const RunArguments& run) {
        gradient.Run(BytesOf(run, context, 0), BytesOf(run, context, 1), reinterpret_cast<float*>(run.workspace),
                     DataOf<float>(run, context, 2), gradient.bias ? DataOf<float>(run, context, 3) : nullptr);
        return absl::OkStatus();
      },
      gradient.floats() * static_cast<int64_t>(sizeof(float)));
}

}  // namespace colonnade::cpu
