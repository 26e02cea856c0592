#include "program/memory_order.h"

#include <algorithm>
#include <limits>

namespace colonnade::program {

MemoryOrder::MemoryOrder(const Program& program, const DeviceClasses& classes)
    : order_(program, classes), span_of_(program.buffers.size(), -1) {
  for (const Buffer& buffer : program.buffers) {
    if (!classes.IsRepresentative(buffer.device)) continue;
    span_of_[buffer.id.value] = static_cast<int>(spans_.size());
    spans_.emplace_back();
  }
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 2;
  for (Span& span : spans_) {
    span.last_position.fill(-kFar);
    span.ended.fill(kFar);
  }
  for (const Task& task : program.tasks) {
    if (!classes.IsRepresentative(task.device)) continue;
    for (const BufferUse& use : task.uses) {
      Span& span = spans_[span_of_[RootOf(program, use.buffer).value]];
      int64_t& last = span.last_position[static_cast<int>(task.lane)];
      last = std::max(last, order_.position_[task.id.value]);
      for (int lane = 0; lane < kLaneCount; ++lane) {
        span.ended[lane] = std::min(span.ended[lane], order_.ended_[task.id.value][lane]);
      }
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (!classes.IsRepresentative(buffer.device)) continue;
    Span& span = spans_[span_of_[buffer.id.value]];
    for (int lane = 0; lane < kLaneCount; ++lane) {
      span.ended_in_before[lane] = span.ended[lane] + order_.lane_sizes_[buffer.device][lane];
    }
  }
}

bool MemoryOrder::Before(BufferId a, BufferId b) const {
  const Span& span_a = SpanOf(a);
  const Span& span_b = SpanOf(b);
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (span_a.last_position[lane] >= span_b.ended[lane]) return false;
    if (span_b.last_position[lane] >= span_a.ended_in_before[lane]) return false;
  }
  return true;
}

}  // namespace colonnade::program
