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
  for (const Task& task : program.tasks) {
    if (!classes.IsRepresentative(task.device)) continue;
    for (const BufferUse& use : task.uses) {
      Span& span = spans_[span_of_[RootOf(program, use.buffer).value]];
      const int lane = static_cast<int>(task.lane);
      span.last[lane] = task.id;
      if (!span.first[lane].valid()) span.first[lane] = task.id;
    }
  }
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 2;
  for (const Buffer& buffer : program.buffers) {
    if (!classes.IsRepresentative(buffer.device)) continue;
    Span& span = spans_[span_of_[buffer.id.value]];
    span.ended.fill(kFar);
    for (int lane = 0; lane < kLaneCount; ++lane) {
      span.last_position[lane] = span.last[lane].valid() ? order_.position_[span.last[lane].value] : -kFar;
      if (!span.first[lane].valid()) continue;
      for (int other = 0; other < kLaneCount; ++other) {
        span.ended[other] = std::min(span.ended[other], order_.ended_[span.first[lane].value][other]);
      }
    }
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

std::optional<std::pair<TaskId, TaskId>> MemoryOrder::Clash(BufferId a, BufferId b) const {
  const Span& span_a = SpanOf(a);
  const Span& span_b = SpanOf(b);
  for (int lane_a = 0; lane_a < kLaneCount; ++lane_a) {
    if (!span_a.first[lane_a].valid()) continue;
    for (int lane_b = 0; lane_b < kLaneCount; ++lane_b) {
      if (!span_b.first[lane_b].valid()) continue;
      if (!order_.Within(span_a.last[lane_a], span_b.first[lane_b])) {
        return std::pair(span_a.last[lane_a], span_b.first[lane_b]);
      }
      if (!order_.Carried(span_b.last[lane_b], span_a.first[lane_a])) {
        return std::pair(span_b.last[lane_b], span_a.first[lane_a]);
      }
    }
  }
  return std::nullopt;
}

}  // namespace colonnade::program
