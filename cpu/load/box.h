// Walks boxes of several operands together, row by row, whatever the layout of each.
//
// A BoxPlan is made once, outside the step: it cuts the common box at the channel blocks of each operand, merges what lies
// side by side in all of them, and orders the loops by the operands' layouts. Dense operands of one layout become one range.
// A plan is immutable; threads may walk it together.
#ifndef COLONNADE_CPU_BOX_H_
#define COLONNADE_CPU_BOX_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "cpu/load/view.h"
#include "cpu/threads/parallel.h"

namespace colonnade::cpu {

// Elements that every operand holds at equal distances: element i of operand p is at offset[p] + i·stride[p].
struct Row {
  const int64_t* offset;
  const int64_t* stride;
  int64_t size;
  bool contiguous;  // every stride is 1
};

struct BoxLoop;

class BoxPlan {
 public:
  static constexpr int64_t kMaxRow = 2048;  // elements; longer rows are cut

  BoxPlan() = default;
  // REQUIRES: views of equal shape, none opaque.
  explicit BoxPlan(absl::Span<const View> operands);

  int64_t rows() const { return rows_; }

  // Calls visit(const Row&) for rows [begin, end).
  template <class Visit>
  void ForRows(int64_t begin, int64_t end, const Visit& visit) const;

  // All rows, spread over `threads`.
  template <class Visit>
  void ForAllRows(int threads, const Visit& visit) const {
    ParallelFor(threads, rows_, [&](int64_t begin, int64_t end) { ForRows(begin, end, visit); });
  }

 private:
  static constexpr int kMaxLoops = 8;
  static constexpr int kFewOperands = 32;  // walking a plan of more allocates
  // A part of the box in which every operand is affine; the last loop is a row.
  struct Segment {
    int64_t first_row = 0, rows = 1;
    bool contiguous = false;
    absl::InlinedVector<int64_t, kMaxLoops> extents;
    std::vector<int64_t> base;     // by operand
    std::vector<int64_t> strides;  // by loop, then operand
  };
  using Cursor = std::array<int64_t, kMaxLoops>;

  // Adds the box that the loops walk from `base` on, whose last one is the rows.
  void AddBox(std::vector<int64_t> base, std::vector<BoxLoop> loops);
  // Adds `count` rows of `size` elements, one behind the other, for each turn of `loops`.
  void AddRows(std::vector<int64_t> base, std::vector<BoxLoop> loops, const BoxLoop& row, int64_t count, int64_t size);
  void AddSegment(Segment segment);
  void Seek(const Segment& segment, int64_t row, Cursor& cursor, int64_t* offset) const;
  void Advance(const Segment& segment, Cursor& cursor, int64_t* offset) const;

  int operands_ = 0;
  int64_t rows_ = 0;
  std::vector<Segment> segments_;
};

template <class Visit>
void BoxPlan::ForRows(int64_t begin, int64_t end, const Visit& visit) const {
  absl::InlinedVector<int64_t, kFewOperands> offset(operands_);
  for (const Segment& segment : segments_) {
    const int64_t from = std::max(begin, segment.first_row), to = std::min(end, segment.first_row + segment.rows);
    if (from >= to) continue;
    Cursor cursor;
    Seek(segment, from - segment.first_row, cursor, offset.data());
    const int64_t* row_strides = segment.strides.data() + (segment.extents.size() - 1) * operands_;
    for (int64_t row = from;;) {
      visit(Row{offset.data(), row_strides, segment.extents.back(), segment.contiguous});
      if (++row == to) break;
      Advance(segment, cursor, offset.data());
    }
  }
}

// Calls visit(part, row) for the rows of `part.plan` of all parts, which `threads` share as if they were of one plan.
template <class Part, class Visit>
void ForAllRowsOf(const std::vector<Part>& parts, int threads, const Visit& visit) {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.plan.rows();
  ParallelFor(threads, rows, [&](int64_t begin, int64_t end) {
    for (const Part& part : parts) {
      const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, part.plan.rows());
      if (from < to) part.plan.ForRows(from, to, [&](const Row& row) { visit(part, row); });
      begin -= part.plan.rows(), end -= part.plan.rows();
    }
  });
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_BOX_H_
