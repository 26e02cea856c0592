#include "program/memory_order.h"

namespace colonnade::program {

MemoryOrder::MemoryOrder(const Program& program) : order_(program), spans_(program.buffers.size()) {
  for (const Task& task : program.tasks) {
    for (const BufferUse& use : task.uses) {
      Span& span = spans_[RootOf(program, use.buffer).value];
      const int lane = static_cast<int>(task.lane);
      span.used = true;
      span.last[lane] = task.id;
      if (!span.first[lane].valid()) span.first[lane] = task.id;
    }
  }
}

std::optional<std::pair<TaskId, TaskId>> MemoryOrder::Clash(BufferId a, BufferId b) const {
  const Span& span_a = spans_[a.value];
  const Span& span_b = spans_[b.value];
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
