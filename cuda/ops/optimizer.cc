#include "cuda/ops/optimizer.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "cuda/ops/copy.h"
#include "cuda/ops/elementwise.h"

namespace colonnade::cuda {
namespace {

using engine::MemberRange;

// Of an update whose gradient is operand `g`.
template <class Op>
std::vector<UpdateSegment> SegmentsOf(const Op& op, const TaskContext& context, int g) {
  std::vector<UpdateSegment> segments;
  for (const engine::UpdateRange& range :
       engine::UpdateRangesOf(context.operands[g].members, op.rates, op.decays, op.weight_decay, /*by_member=*/g > 1)) {
    segments.push_back({range.end, range.rate, range.weight_decay, range.member});
  }
  return segments;
}

// Operands from `first` on; of buckets, their elements [begin, end) alone.
std::vector<View> ViewsFrom(const TaskContext& context, int first, bool all, int64_t begin, int64_t end) {
  std::vector<View> views;
  for (size_t use = first; use < context.operands.size(); ++use) {
    const View& view = context.view(static_cast<int>(use));
    views.push_back(all ? view : Slice(view, {{begin}, {end - begin}}));
  }
  return views;
}

// One call for each kMostSegments segments; make(lanes, walk, control) gives its kernel.
template <class Op, class Make>
PreparedTask UpdateTask(const Op& op, const TaskContext& context, int moments, const Make& make) {
  const int g = static_cast<int>(context.operands.size()) - moments - 2;
  const std::vector<UpdateSegment> segments = SegmentsOf(op, context, g);
  constexpr size_t kMost = UpdateControl::kMostSegments;
  TaskCalls ready;
  int64_t begin = 0;
  for (size_t first = 0; first < segments.size(); first += kMost) {
    const size_t last = std::min(first + kMost, segments.size());
    UpdateControl control{.scalars = context.at<double>(0), .gate = nullptr, .trust = nullptr, .segments = 0, .segment = {}};
    if (g > 1) control.gate = context.at<double>(1), control.trust = context.at<double>(2);
    for (size_t s = first; s < last; ++s) {
      control.segment[control.segments] = segments[s];
      control.segment[control.segments++].end -= begin;
    }
    const int64_t end = segments[last - 1].end;
    ASSIGN_OR_RETURN(Walk walk, WalkOver(ViewsFrom(context, g, segments.size() <= kMost, begin, end)));
    std::vector<Base> bases;
    for (size_t use = g; use < context.operands.size(); ++use) bases.push_back({context.operands[use].base, sizeof(float)});
    constexpr int kLanes = kLanesOf<float>;
    ready.calls.push_back(LieInVectors(walk, bases, kLanes) ? make(std::integral_constant<int, kLanes>(), walk, control, g)
                                                            : make(std::integral_constant<int, 1>(), walk, control, g));
    begin = end;
  }
  return ready;
}

constexpr int64_t kBlockElements = 1 << 14, kMostBlocksOfRange = 256;

}  // namespace

PreparedTask Prepare(const program::SgdUpdate& op, const TaskContext& context) {
  return UpdateTask(
      op, context, /*moments=*/1,
      [&]<int lanes>(std::integral_constant<int, lanes>, const Walk& walk, const UpdateControl& control, int g) {
        return Kernel(SgdElements<lanes>{walk, control, context.base<float>(g), context.base<float>(g + 1),
                                         context.base<float>(g + 2), static_cast<float>(op.momentum), op.form});
      });
}

PreparedTask Prepare(const program::AdamWUpdate& op, const TaskContext& context) {
  return UpdateTask(
      op, context, /*moments=*/2,
      [&]<int lanes>(std::integral_constant<int, lanes>, const Walk& walk, const UpdateControl& control, int g) {
        return Kernel(AdamWElements<lanes>{walk, control, context.base<float>(g), context.base<float>(g + 1),
                                           context.base<float>(g + 2), context.base<float>(g + 3), op.adam});
      });
}

PreparedTask Prepare(const program::AverageUpdate& op, const TaskContext& context) {
  const int w = static_cast<int>(context.operands.size()) - 2;
  const double* gate = w > 0 ? context.at<double>(0) : nullptr;
  ASSIGN_OR_RETURN(const Walk walk, WalkOver({context.view(w), context.view(w + 1)}));
  const Base bases[] = {{context.operands[w].base, sizeof(float)}, {context.operands[w + 1].base, sizeof(float)}};
  const auto kernel = [&]<int lanes>(std::integral_constant<int, lanes>) -> Call {
    return Kernel(AverageElements<lanes>{walk, gate, context.base<float>(w), context.base<float>(w + 1),
                                         static_cast<float>(1 - op.decay)});
  };
  constexpr int kLanes = kLanesOf<float>;
  TaskCalls ready;
  ready.calls.push_back(LieInVectors(walk, bases, kLanes) ? kernel(std::integral_constant<int, kLanes>())
                                                          : kernel(std::integral_constant<int, 1>()));
  return ready;
}

PreparedTask Prepare(const program::SquaredNorms& op, const TaskContext& context) {
  TaskCalls ready;
  Workspace workspace(context);
  const int tensors = static_cast<int>(context.operands.size()) - 1;
  const View& norms = context.view(tensors);
  std::vector<SummedRange> ranges;  // of nothing, where there is nothing to count
  for (int64_t m = 0; m < norms.shape[0]; ++m) {
    for (int64_t k = 0; k < 2; ++k) {
      ranges.push_back({nullptr, 0, 0, 1, context.at<double>(tensors) + m * norms.strides[0] + k * norms.strides[1]});
    }
  }
  for (int k = 0; k < tensors; ++k) {
    ASSIGN_OR_RETURN(Packed packed, PackInput(context, k, program::DType::kF32, workspace));
    for (Call& call : packed.before) ready.calls.push_back(std::move(call));
    for (const MemberRange& range : context.operands[k].members) {
      if (program::FactorOf(op.counted, range.member) == 0) continue;
      SummedRange& of = ranges[2 * range.member + k];
      of.x = reinterpret_cast<const float*>(packed.data) + range.begin;
      of.elements = range.end - range.begin;
      of.blocks = std::clamp<int64_t>(of.elements / kBlockElements, 1, kMostBlocksOfRange);
    }
  }
  for (size_t first = 0; first < ranges.size(); first += SquareRanges::kMostRanges) {
    SquareRanges squares{.count = 0, .ranges = {}, .partial = nullptr};
    int64_t blocks = 0;
    for (size_t r = first; r < std::min(ranges.size(), first + SquareRanges::kMostRanges); ++r) {
      squares.ranges[squares.count] = ranges[r];
      squares.ranges[squares.count++].first_block = blocks;
      blocks += ranges[r].blocks;
    }
    squares.partial = workspace.Take<double>(blocks);
    ready.calls.push_back(Kernel(squares));
    ready.calls.push_back(Kernel(SumSquares{squares}));
  }
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::UpdateGate& op, const TaskContext& context) {
  TaskCalls ready;
  const int64_t all = context.view(2).shape[0];
  for (int64_t first = 0; first < all; first += OpenGate::kMostParameters) {
    const program::Shape& strides = context.view(0).strides;
    OpenGate gate{.norms = context.at<double>(0),
                  .norm_stride = {strides[0], strides[1]},
                  .gate = context.at<double>(1),
                  .trust = context.at<double>(2),
                  .all = all,
                  .first = first,
                  .parameters = static_cast<int>(std::min<int64_t>(OpenGate::kMostParameters, all - first)),
                  .clip_norm = op.clip_norm,
                  .trust_coefficient = op.trust,
                  .weight_decay = {},
                  .adapted = {}};
    for (int i = 0; i < gate.parameters; ++i) {
      gate.weight_decay[i] = op.weight_decay * program::FactorOf(op.decays, first + i);
      gate.adapted[i] = program::FactorOf(op.adapted, first + i) != 0;
    }
    ready.calls.push_back(Kernel(gate));
  }
  return ready;
}

}  // namespace colonnade::cuda
