#include "cpu/load/box.h"

#include <numeric>
#include <utility>

namespace colonnade::cpu {

using program::Shape;

namespace {

// One loop over a dimension: its extent and the stride of each operand.
struct Loop {
  int64_t extent;
  std::vector<int64_t> strides;
};

// Channels [begin, begin + blocks·width): `blocks` runs of `width` channels, each inside one block of every operand.
struct ChannelRun {
  int64_t begin, blocks, width;
};

std::vector<ChannelRun> CutChannels(absl::Span<const View> operands, int64_t channels) {
  bool one_phase = true;
  int64_t phase = -1;
  for (const View& view : operands) {
    if (view.kind != View::Kind::kBlocked) continue;
    one_phase = one_phase && (phase < 0 || phase == view.phase);
    phase = view.phase;
  }
  std::vector<ChannelRun> runs;
  int64_t begin = 0;
  while (begin < channels) {
    int64_t width = channels - begin;
    for (const View& view : operands) {
      if (view.kind == View::Kind::kBlocked) width = std::min(width, kChannelBlock - (view.phase + begin) % kChannelBlock);
    }
    const int64_t blocks = one_phase && width == kChannelBlock ? (channels - begin) / kChannelBlock : 1;
    runs.push_back({begin, blocks, width});
    begin += blocks * width;
  }
  return runs;
}

Loop LoopOver(absl::Span<const View> operands, size_t dimension, int64_t extent) {
  Loop loop{extent, {}};
  for (const View& view : operands) loop.strides.push_back(view.strides[dimension]);
  return loop;
}

// The loops over n, blocks, h, w and channels of a block, in the order in which most operands have them in memory.
std::vector<Loop> BlockedLoops(absl::Span<const View> operands, const ChannelRun& run) {
  const Shape& shape = operands[0].shape;
  bool plain_memory = false;
  Loop blocks{run.blocks, {}}, lanes{run.width, {}};
  for (const View& view : operands) {
    const bool blocked = view.kind == View::Kind::kBlocked;
    plain_memory = plain_memory || (!blocked && view.strides[3] == 1 && view.strides[1] != 1);
    blocks.strides.push_back(blocked ? view.strides[1] : view.strides[1] * run.width);
    lanes.strides.push_back(blocked ? 1 : view.strides[1]);
  }
  const Loop n = LoopOver(operands, 0, shape[0]), h = LoopOver(operands, 2, shape[2]), w = LoopOver(operands, 3, shape[3]);
  if (plain_memory) return {n, blocks, h, lanes, w};
  return {n, blocks, h, w, lanes};
}

bool Continues(const Loop& outer, const Loop& inner) {
  for (size_t p = 0; p < outer.strides.size(); ++p) {
    if (outer.strides[p] != inner.strides[p] * inner.extent) return false;
  }
  return true;
}

std::vector<Loop> Merge(std::vector<Loop> loops) {
  std::vector<Loop> merged;
  for (Loop& loop : loops) {
    if (loop.extent == 1) continue;
    if (!merged.empty() && Continues(merged.back(), loop)) {
      merged.back() = {merged.back().extent * loop.extent, std::move(loop.strides)};
    } else {
      merged.push_back(std::move(loop));
    }
  }
  if (merged.empty()) merged.push_back({1, std::vector<int64_t>(loops.front().strides.size(), 1)});
  return merged;
}

}  // namespace

BoxPlan::BoxPlan(absl::Span<const View> operands) : operands_(static_cast<int>(operands.size())) {
  const Shape& shape = operands[0].shape;
  if (program::ElementCount(shape) == 0) return;
  bool any_blocked = false;
  for (const View& view : operands) any_blocked = any_blocked || view.kind == View::Kind::kBlocked;
  const std::vector<ChannelRun> runs = any_blocked ? CutChannels(operands, shape[1]) : std::vector<ChannelRun>{{0, 1, 0}};
  for (const ChannelRun& run : runs) {
    std::vector<int64_t> base;
    for (const View& view : operands) {
      Shape index(shape.size(), 0);
      if (any_blocked) index[1] = run.begin;
      base.push_back(OffsetOf(view, index));
    }
    std::vector<Loop> loops;
    if (any_blocked) {
      loops = BlockedLoops(operands, run);
    } else {
      for (size_t d = 0; d < shape.size(); ++d) loops.push_back(LoopOver(operands, d, shape[d]));
      if (loops.empty()) loops.push_back({1, std::vector<int64_t>(operands.size(), 1)});
    }
    loops = Merge(std::move(loops));

    Loop row = std::move(loops.back());
    loops.pop_back();
    const auto add = [&](int64_t count, int64_t size, int64_t skipped) {
      Segment segment;
      segment.base = base;
      for (size_t p = 0; p < operands.size(); ++p) segment.base[p] += skipped * row.strides[p];
      std::vector<Loop> cut = loops;
      if (count > 1) {
        cut.push_back({count, row.strides});
        for (int64_t& stride : cut.back().strides) stride *= size;
      }
      cut.push_back({size, row.strides});
      for (const Loop& loop : cut) {
        segment.extents.push_back(loop.extent);
        segment.strides.insert(segment.strides.end(), loop.strides.begin(), loop.strides.end());
      }
      AddSegment(std::move(segment));
    };
    const int64_t whole_rows = row.extent / kMaxRow, rest = row.extent % kMaxRow;
    if (whole_rows > 0) add(whole_rows, kMaxRow, 0);
    if (rest > 0) add(1, rest, whole_rows * kMaxRow);
  }
}

void BoxPlan::AddSegment(Segment segment) {
  segment.first_row = rows_;
  segment.rows = std::accumulate(segment.extents.begin(), segment.extents.end() - 1, int64_t{1}, std::multiplies<>());
  segment.contiguous =
      std::all_of(segment.strides.end() - operands_, segment.strides.end(), [](int64_t s) { return s == 1; });
  rows_ += segment.rows;
  segments_.push_back(std::move(segment));
}

void BoxPlan::Seek(const Segment& segment, int64_t row, Cursor& cursor, int64_t* offset) const {
  std::copy(segment.base.begin(), segment.base.end(), offset);
  for (int loop = static_cast<int>(segment.extents.size()) - 2; loop >= 0; --loop) {
    cursor[loop] = row % segment.extents[loop];
    row /= segment.extents[loop];
    for (int p = 0; p < operands_; ++p) offset[p] += cursor[loop] * segment.strides[loop * operands_ + p];
  }
}

void BoxPlan::Advance(const Segment& segment, Cursor& cursor, int64_t* offset) const {
  for (int loop = static_cast<int>(segment.extents.size()) - 2; loop >= 0; --loop) {
    const int64_t* stride = segment.strides.data() + loop * operands_;
    if (++cursor[loop] < segment.extents[loop]) {
      for (int p = 0; p < operands_; ++p) offset[p] += stride[p];
      return;
    }
    cursor[loop] = 0;
    for (int p = 0; p < operands_; ++p) offset[p] -= stride[p] * (segment.extents[loop] - 1);
  }
}

}  // namespace colonnade::cpu
