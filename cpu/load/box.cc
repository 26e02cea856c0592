#include "cpu/load/box.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace colonnade::cpu {

using program::Shape;

// One loop over a dimension: its extent and the stride of each operand.
struct BoxLoop {
  int64_t extent;
  std::vector<int64_t> strides;
};

namespace {

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

BoxLoop LoopOver(absl::Span<const View> operands, size_t dimension, int64_t extent) {
  BoxLoop loop{extent, {}};
  for (const View& view : operands) loop.strides.push_back(view.strides[dimension]);
  return loop;
}

// The loops over n, blocks, h, w and channels of a block, in the order in which most operands have them in memory.
std::vector<BoxLoop> BlockedLoops(absl::Span<const View> operands, const ChannelRun& run) {
  const Shape& shape = operands[0].shape;
  bool plain_memory = false;
  BoxLoop blocks{run.blocks, {}}, lanes{run.width, {}};
  for (const View& view : operands) {
    const bool blocked = view.kind == View::Kind::kBlocked;
    plain_memory = plain_memory || (!blocked && view.strides[3] == 1 && view.strides[1] != 1);
    blocks.strides.push_back(blocked ? view.strides[1] : view.strides[1] * run.width);
    lanes.strides.push_back(blocked ? 1 : view.strides[1]);
  }
  const BoxLoop n = LoopOver(operands, 0, shape[0]), h = LoopOver(operands, 2, shape[2]),
                w = LoopOver(operands, 3, shape[3]);
  if (plain_memory) return {n, blocks, h, lanes, w};
  return {n, blocks, h, w, lanes};
}

// The loops over all dimensions, where no operand is blocked.
std::vector<BoxLoop> AffineLoops(absl::Span<const View> operands) {
  const Shape& shape = operands[0].shape;
  std::vector<BoxLoop> loops;
  for (size_t d = 0; d < shape.size(); ++d) loops.push_back(LoopOver(operands, d, shape[d]));
  if (loops.empty()) loops.push_back({1, std::vector<int64_t>(operands.size(), 1)});
  return loops;
}

// Where each operand has the element `index`.
std::vector<int64_t> OffsetsOf(absl::Span<const View> operands, const Shape& index) {
  std::vector<int64_t> offsets;
  for (const View& view : operands) offsets.push_back(OffsetOf(view, index));
  return offsets;
}

bool Continues(const BoxLoop& outer, const BoxLoop& inner) {
  for (size_t p = 0; p < outer.strides.size(); ++p) {
    if (outer.strides[p] != inner.strides[p] * inner.extent) return false;
  }
  return true;
}

std::vector<BoxLoop> Merge(std::vector<BoxLoop> loops) {
  std::vector<BoxLoop> merged;
  for (BoxLoop& loop : loops) {
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
  const auto is_blocked = [](const View& view) { return view.kind == View::Kind::kBlocked; };
  Shape first(shape.size(), 0);
  if (std::none_of(operands.begin(), operands.end(), is_blocked)) {
    AddBox(OffsetsOf(operands, first), Merge(AffineLoops(operands)));
    return;
  }
  for (const ChannelRun& run : CutChannels(operands, shape[1])) {
    first[1] = run.begin;
    AddBox(OffsetsOf(operands, first), Merge(BlockedLoops(operands, run)));
  }
}

void BoxPlan::AddBox(std::vector<int64_t> base, std::vector<BoxLoop> loops) {
  const BoxLoop row = std::move(loops.back());
  loops.pop_back();
  const int64_t whole_rows = row.extent / kMaxRow, rest = row.extent % kMaxRow;
  if (whole_rows > 0) AddRows(base, loops, row, whole_rows, kMaxRow);
  for (size_t p = 0; p < base.size(); ++p) base[p] += whole_rows * kMaxRow * row.strides[p];
  if (rest > 0) AddRows(std::move(base), std::move(loops), row, 1, rest);
}

void BoxPlan::AddRows(std::vector<int64_t> base, std::vector<BoxLoop> loops, const BoxLoop& row, int64_t count,
                      int64_t size) {
  if (count > 1) {
    loops.push_back({count, row.strides});
    for (int64_t& stride : loops.back().strides) stride *= size;
  }
  loops.push_back({size, row.strides});
  Segment segment;
  segment.base = std::move(base);
  for (const BoxLoop& loop : loops) {
    segment.extents.push_back(loop.extent);
    segment.strides.insert(segment.strides.end(), loop.strides.begin(), loop.strides.end());
  }
  AddSegment(std::move(segment));
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
